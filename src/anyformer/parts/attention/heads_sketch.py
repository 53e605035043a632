"""Pictures of attention over heads: queries, keys and values side by side, their norms and rotation, then the softmax."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from anyformer.parts.sketch import Cell, Flow, SideInput, Sketch, biases, chain, fan, number, words

if TYPE_CHECKING:
    from anyformer.parts.attention.heads import Heads
    from anyformer.parts.norms.norm import Norm
    from anyformer.parts.pointwise.gate import Gate
    from anyformer.parts.positions.rotary import Rotary


def heads_cell(name: str, heads: int, features: int, groups: int = 0) -> Cell:
    """`Q 32 × 128`: 32 heads of 128 features."""
    return Cell(f"{name} {heads} × {number(features)}", count=heads, groups=groups)


def rotary_cell(rotary: Rotary | None) -> Cell | None:
    """Theta, the rotated part of a head, and the scaling."""
    if rotary is None:
        return None
    facts = [f"rotary θ {number(rotary.theta)}"]
    facts += [f"{rotary.fraction:.4g} of each head"] if rotary.fraction < 1 else []
    facts += [rotary.scaling.words] if rotary.scaling is not None else []
    return Cell(" · ".join(facts), "position")


def gated(flow: Flow, gate: Gate | None) -> Flow:
    """The flow times its gate, if there is one."""
    if gate is None:
        return flow
    rank = "" if gate.rank is None else f", rank {gate.rank}"
    return fan(flow, chain(Cell(f"gate per {gate.per}{rank}"), Cell(gate.activation, "pointwise")), join="×")


def heads_sketch(
    part: Heads,
    width: int,
    title: str,
    facts: Iterable[str],
    *,
    rotary: Cell | None = None,
    memory: str | None = None,
    source: bool = False,
    source_norm: Norm | None = None,
    beside: Cell | None = None,
) -> Sketch:
    """The picture of an attention over heads, projection by projection.

    `facts`: text of the softmax cell; `rotary`: the rotation of queries and keys; `memory`: the variant whose keys and values
    it reads; `source`: whether keys and values come from the source, after `source_norm` if there is one; `beside`: what
    stands beside the heads before the output projection.
    """
    E, U, K = part.width_of_head(width), part.width_of_value(width), part.groups
    # Shades show which queries share a key; without sharing, all are alike.
    groups = K if part.heads > K else 0
    query, key = heads_cell("Q", part.heads, E, groups), heads_cell("K", K, E, groups)
    value: Flow = heads_cell("V", K, U, groups) if part.values == "own" else Cell("V = K", "pointwise")
    value = chain(value, None if part.value_norm is None else Cell("V-norm", "norm"))
    over = {"head": "QK-norm", "each_head": "QK-norm of each head", "projection": "QK-norm of all heads"}
    norm = None if part.qk_norm is None else Cell(over[part.qk_norm.over], "norm")
    cells = [rotary, norm] if part.norms_late else [norm, rotary]
    if memory is not None:
        read = fan(chain(query, *cells), SideInput(Cell(f"K, V of the latest {memory} layer", "memory")))
    elif source:
        before = None if source_norm is None else Cell("norm of the source", "norm")
        read = fan(SideInput(chain(before, fan(chain(key, norm), value)), source=True), chain(query, norm))
    else:
        read = fan(chain(fan(query, key), *cells), value)
    numbers = {"clip": part.clip, "scale": part.scale, "soft-cap": part.softcap}
    given = [f"{name} {number(value)}" for name, value in numbers.items() if value is not None]
    sinks = ["a sink per head"] if part.sink is not None else []
    grouped = () if part.grouped is None else (part.grouped.words,)
    weights = "softmax" if part.weights is None else words(part.weights)
    mixed = chain(read, Cell(" · ".join([weights, *facts, *given, *sinks]), "mix"))
    given_biases = biases(part.bias, 4 if part.values == "own" and memory is None else 3 if memory is None else 2)
    return Sketch(
        title,
        (*given_biases, *grouped, *(() if part.lora is None else (part.lora.words,))),
        chain(
            fan(chain(gated(mixed, part.gate), None if part.sub_norm is None else Cell("norm of all heads", "norm")), beside),
            Cell(f"output {number(width)}"),
        ),
    )


def heads_title(part: Heads) -> str:
    """Multi-head, grouped-query or multi-query."""
    if part.groups == part.heads:
        return "Multi-head"
    return "Multi-query" if part.groups == 1 else "Grouped-query"
