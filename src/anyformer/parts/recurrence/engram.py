"""Engram: a memory of hashed n-grams whose rows the stream gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from anyformer.describe import Count
from anyformer.operations import Shape, Tally, Watchables, matrix, total, value
from anyformer.parts.call.shared import TOKENS, Read
from anyformer.parts.embedding.ngrams import Ngrams
from anyformer.parts.norms.layer_norm import RMSNorm
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.recurrence.recurrent_work import recurrent
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, SideInput, Sketch, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from anyformer.parts.call.state import State
    from anyformer.parts.recurrence.engram_module import EngramModule


class Engram(Sublayer):
    """y = v' + conv(norm(v')), v' = g * (e W_v): e the rows of the token's n-grams side by side, g a gate by the stream.

        g = sigmoid(sign(a) sqrt(|a|)), a = norm(x) . norm(e W_k) / sqrt(D)

    tables (rows, P), e (B, T, I) with I = tables * P, W_k and W_v (I, D), three norms over D with gains of their own.
    Conditional memory via scalable look-up (Cheng et al. 2026, arXiv 2601.07372), added to the stream at a few layers, by a
    branch without a norm; the root is in the published code only. Qwen4-Exp's per-layer embedding with one stream; with several
    it has a key for each. The paper starts the convolution at 0. Its tables help in a part only of the sparse parameters: with
    more in them, and fewer experts, the loss rises again.
    """

    kind: Literal["engram"] = "engram"
    ngrams: Ngrams
    width: Count
    """P, features of a row."""
    norm: Norm = RMSNorm()
    """Of the stream, of the keys, and of what the convolution reads."""
    convolution: ShortConvolution | None = None
    """conv; None: y = v'. Published: 4 positions, the longest n apart, then SiLU."""

    def sketch(self, width: int) -> Sketch:
        table = SideInput(Cell(f"{self.ngrams.tables} rows of {self.ngrams.total:,} × {self.width}", "memory"))
        rows = chain(table, fan(Cell(f"key {number(width)}"), Cell(f"value {number(width)}")))
        mixed = None if self.convolution is None else Cell(f"+ {self.convolution.words}", "mix")
        gated = fan(Cell("norm", "norm"), rows, join="×")
        return Sketch("Engram", (self.ngrams.words, "gated by stream and key"), chain(gated, mixed))

    @property
    def traits(self) -> Traits:
        return Traits("n-grams")

    @property
    def reads(self) -> tuple[Read, ...]:
        return (TOKENS,)

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""
        self.norm.check(width)

    def build(self, width: int, plan: Plan, name: str) -> EngramModule:
        from anyformer.parts.recurrence.engram_module import EngramModule

        return EngramModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows, inputs = shape.rows, self.ngrams.tables * self.width
        parts = matrix("key", inputs, width, rows, role="replicate")
        parts += matrix("value", inputs, width, rows, role="replicate", fill="residual")
        norms = ["query_norm", "key_norm", *([] if self.convolution is None else ["convolution_norm"])]
        inner = {"ngrams": self.ngrams.cost(self.width), "gate": ACTIVATIONS["sigmoid"].cost(1, rows)}
        inner |= {name: self.norm.cost(width, rows) for name in norms}
        held = self.ngrams.state_bytes(shape.batch)
        if self.convolution is not None:
            inner["convolution"] = self.convolution.cost(width, rows)
            held += self.convolution.state_elements(width, shape.batch) * plan.activation_bytes
        return parts + total(inner) + Tally(own_state=recurrent(held, shape))

    def watchable(self, width: int) -> Watchables:
        return {
            "rows": value("BTI", "what is looked up, side by side", I=self.ngrams.tables * self.width),
            "gate": value("BTn", "the gate of what is looked up", n=1),
            "value": value("BTD", "what is looked up, before its gate", D=width),
        }

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> JoinedState:
        """The latest tokens and, of a convolution, its latest inputs, for any capacity."""
        states: dict[str, State] = {"tokens": self.ngrams.state(batch, device)}
        if self.convolution is not None:
            states["convolution"] = self.convolution.state(width, batch, dtype, device)
        return JoinedState(states)


class JoinedState:
    """States by name, each of which holds, forgets and forks by itself."""

    def __init__(self, states: Mapping[str, State]) -> None:
        self.states = dict(states)

    def __getitem__(self, name: str) -> Any:
        return self.states[name]

    @property
    def allows_padding(self) -> bool:
        return all(state.allows_padding for state in self.states.values())

    @property
    def nbytes(self) -> int:
        return sum(state.nbytes for state in self.states.values())

    def take(self, other: JoinedState) -> None:
        for name, state in self.states.items():
            state.take(other.states[name])

    def put(self, rows: Tensor, other: JoinedState, start: int, count: int) -> None:
        for name, state in self.states.items():
            state.put(rows, other.states[name], start, count)

    def shift(self, count: int, used: int) -> None:
        for state in self.states.values():
            state.shift(count, used)

    def check_trim(self, written: int, count: int) -> None:
        for state in self.states.values():
            state.check_trim(written, count)

    def kept(self, start: int, count: int) -> dict[str, Any]:
        return {name: state.kept(start, count) for name, state in self.states.items()}

    def parts(self, count: int) -> bool:
        return all(state.parts(count) for state in self.states.values())

    def restore(self, kept: dict[str, Any], start: int, first: int, stop: int) -> None:
        for name, state in self.states.items():
            state.restore(kept[name], start, first, stop)

    def fork(self, rows: Tensor) -> JoinedState:
        return JoinedState({name: state.fork(rows) for name, state in self.states.items()})
