"""What recurrent mixers do with what each head read of its state: a norm, a gate, and a picture and the price of both."""

from __future__ import annotations

from anyformer.operations import Tally
from anyformer.parts.attention.heads_sketch import gated
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.sketch import Cell, Flow, Sketch, chain, number


def heads_read(
    title: str, flow: Flow, norm: Norm | None, gate: Gate | None, width: int, *, notes: tuple[str, ...] = ()
) -> Sketch:
    """The picture of a mixer: what its heads read, normed, gated and projected."""
    normed = None if norm is None else Cell("norm of each head", "norm")
    return Sketch(title, notes, chain(gated(chain(flow, normed), gate), Cell(f"output {number(width)}")))


def norm_and_gate(norm: Norm | None, gate: Gate | None, width: int, heads: int, features: int, rows: int) -> dict[str, Tally]:
    """Weights and work of both for `rows` rows, by the names of the modules."""
    found = {} if norm is None else {"norm": norm.cost(features, rows * heads)}
    return found if gate is None else found | {"gate": gate.work(width, heads, features, rows)}
