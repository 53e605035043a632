"""A right part, of which wrong ones differ in one method: a gated sum that forgets, in chunks, with a decode state."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Count
from anyformer.operations import Shape, StateBytes, Tally, matrix
from anyformer.operations.elementwise import activated
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import RecurrentState
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan


class FadingState(RecurrentState):
    """The sum, and whether a piece was read."""

    begun = False

    def fork(self, rows: Tensor) -> FadingState:
        made = FadingState(self.sums[rows].clone())
        made.begun = self.begun
        return made


class FadingModule(nn.Module):
    """o = W_o (silu(W_g x) * s)."""

    def __init__(self, part: FadingSum, width: int, plan: Plan) -> None:
        super().__init__()
        self.keep, self.plan = part.keep, plan
        self.value = nn.Linear(width, part.features, bias=False)
        self.gate = nn.Linear(width, part.features, bias=False)
        self.output = nn.Linear(part.features, width, bias=False)

    def forward(self, x: Tensor, context: Context, state: FadingState | None = None) -> Tensor:
        value = self.value(x)
        total = torch.zeros_like(value[:, 0]) if state is None else state.sums.to(value.dtype)
        valid, begins = self.valid(context, state), self.begins(context)
        sums = list[Tensor]()
        for start in range(0, x.shape[1], self.plan.chunk):
            piece, total = self.chunk(value, total, valid, begins, start)
            sums += piece
        if state is not None:
            self.write(state, total, x.shape[1])
        return self.output(self.activated(x) * self.summed(torch.stack(sums, 1)))

    def chunk(
        self, value: Tensor, total: Tensor, valid: Tensor | None, begins: Tensor | None, start: int
    ) -> tuple[list[Tensor], Tensor]:
        """The sums of a chunk that begins at `start` after `total`, and the last of them."""
        sums = []
        for t in range(start, min(start + self.plan.chunk, value.shape[1])):
            if begins is not None:  # a document of a packed row begins with an empty sum
                total = total.masked_fill(begins[:, t, None], 0)
            after = self.keep * total + value[:, t]
            total = after if valid is None else torch.where(valid[:, t, None], after, total)
            sums.append(total)
        return sums, total

    def valid(self, context: Context, state: FadingState | None) -> Tensor | None:
        """True at positions that change the sum, (B, T)."""
        return context.valid

    def begins(self, context: Context) -> Tensor | None:
        """True where a document begins, (B, T)."""
        segments = context.segments
        return None if segments is None else torch.diff(segments, dim=1, prepend=segments[:, :1]) != 0

    def write(self, state: FadingState, total: Tensor, length: int) -> None:
        state.sums.copy_(total)
        state.begun = True

    def activated(self, x: Tensor) -> Tensor:
        return nn.functional.silu(self.gate(x))

    def summed(self, sums: Tensor) -> Tensor:
        """What is made of the sums, (B, T, N)."""
        return sums


class FadingSum(Sublayer):
    """y_t = W_o (silu(W_g x_t) * s_t), s_t = keep * s_(t-1) + W_v x_t; W_g, W_v: (D, N), s: (B, N), W_o: (N, D)."""

    Module: ClassVar[type[FadingModule]] = FadingModule
    kind: Literal["fading_sum"] = "fading_sum"
    features: Count = 8
    """N."""
    keep: Annotated[float, Field(gt=0, lt=1)] = 0.8

    @property
    def traits(self) -> Traits:
        return Traits(mixing="fading sum", position="NoPE")

    def build(self, width: int, plan: Plan, name: str) -> nn.Module:
        return self.Module(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        parts = Tally(own_state=self.held(shape, plan), own_work={"silu": activated(shape.rows * self.features, gated=True)})
        for name in ("value", "gate"):
            parts += matrix(name, width, self.features, shape.rows, role="column")
        return parts + matrix("output", self.features, width, shape.rows, role="row", fill="residual")

    def held(self, shape: Shape, plan: Plan) -> StateBytes:
        held = shape.batch * self.features * SUM_BYTES
        return StateBytes.of(shape, held, held)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> FadingState:
        return FadingState(torch.zeros(batch, self.features, device=device))

    def narrowed(self, width: int, ways: int) -> Self | None:
        return None if self.features % ways else self.but(features=self.features // ways)


def fading_by_hand(part: FadingSum, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """One row, (T, D) to (T, D)."""
    rows, total = [], torch.zeros(part.features, dtype=x.dtype)
    for features in x:
        total = part.keep * total + weights["value.weight"] @ features
        gate = weights["gate.weight"] @ features
        rows.append(weights["output.weight"] @ (gate / (1 + torch.exp(-gate)) * total))
    return torch.stack(rows)
