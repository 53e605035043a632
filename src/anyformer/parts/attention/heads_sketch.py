"""Pictures of attention over heads: queries, keys and values side by side, what adjusts them, then the weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.positions.rotary import Rotary
from anyformer.parts.sketch import Cell, Flow, SideInput, Sketch, biases, chain, fan, number
from anyformer.parts.slot import SlotPart

if TYPE_CHECKING:
    from anyformer.parts.attention.heads import Heads


def heads_cell(name: str, heads: int, features: int, groups: int = 0) -> Cell:
    """`Q 32 × 128`: 32 heads of 128 features."""
    return Cell(f"{name} {heads} × {number(features)}", count=heads, groups=groups)


def rotary_cell(rotary: Rotary | None) -> Cell | None:
    """Theta, the rotated part of a head, and the scaling."""
    return None if rotary is None else rotary.cell


def gated(flow: Flow, gate: Gate | None) -> Flow:
    """The flow times its gate, if there is one."""
    if gate is None:
        return flow
    rank = "" if gate.rank is None else f", rank {gate.rank}"
    return fan(flow, chain(Cell(f"gate per {gate.per}{rank}"), Cell(gate.activation, "pointwise")), join="×")


def attention_sketch(
    part: Heads, width: int, title: str, facts: Iterable[str], place: Iterable[SlotPart], memory: Iterable[SlotPart]
) -> Sketch:
    """The picture of a self-attention, slot by slot; `facts`: the rules of its scores."""
    query, key, value = _heads(part, width)
    adjust, turned = part.project.adjust.values(), [each.cell for each in place if each.cell is not None]
    before, after = ([each.cell for each in adjust if each.cell_at == at] for at in ("heads", "placed"))
    cells = [*before, *turned, *after]
    recalled = [SideInput(each.cell) for each in memory if each.cell is not None]
    if recalled:
        return _mixed(part, width, title, fan(chain(query, *cells), *recalled), facts)
    return _mixed(part, width, title, fan(chain(fan(query, key), *cells), value), facts)


def cross_sketch(part: Heads, width: int, facts: Iterable[str], source_norm: Norm | None) -> Sketch:
    """The picture of a cross-attention, whose keys and values come from the source, after a norm if there is one."""
    query, key, value = _heads(part, width)
    norms = [each.cell for each in part.project.adjust.values() if each.cell_at == "heads"]
    before = None if source_norm is None else Cell("norm of the source", "norm")
    read = fan(SideInput(chain(before, fan(chain(key, *norms), value)), source=True), chain(query, *norms))
    return _mixed(part, width, f"{heads_title(part)} cross-attention", read, facts)


def _heads(part: Heads, width: int) -> tuple[Cell, Cell, Flow]:
    """Queries, keys and values."""
    sizes = part.sizes(width)
    # Shades show which queries share a key; without sharing, all are alike.
    groups = sizes.groups if sizes.heads > sizes.groups else 0
    query, key = heads_cell("Q", sizes.heads, sizes.head_width, groups), heads_cell("K", sizes.groups, sizes.head_width, groups)
    value = heads_cell("V", sizes.groups, sizes.value_width, groups) if sizes.own_values else Cell("V = K", "pointwise")
    return query, key, chain(value, *(each.cell for each in part.project.adjust.values() if each.cell_at == "values"))


def _mixed(part: Heads, width: int, title: str, read: Flow, facts: Iterable[str]) -> Sketch:
    """What was read, weighed, combined and projected."""
    weights, *more = part.weigh.words
    flow: Flow = chain(read, Cell(" · ".join([weights, *facts, *more]), "mix"))
    for each in part.combine.values():
        flow = each.drawn(flow)
    sides = part.sizes(width).projected
    notes = (*biases(part.project.bias, len(sides) + 1), *(note for each in part.parts for note in each.notes))
    return Sketch(title, notes, chain(flow, Cell(f"output {number(width)}")))


def heads_title(part: Heads) -> str:
    """Multi-head, grouped-query or multi-query."""
    if part.groups == part.heads:
        return "Multi-head"
    return "Multi-query" if part.groups == 1 else "Grouped-query"
