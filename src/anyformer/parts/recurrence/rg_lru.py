"""RG-LRU: a real-gated linear recurrence, one number of state for each channel (Griffin, RecurrentGemma)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn

from anyformer.describe import Choice, Count, Positive
from anyformer.operations import Shape, Tally, Weight, matrix, total
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import SUM_BYTES, RecurrentState
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name
from anyformer.parts.pointwise.grouped import GroupedLinear
from anyformer.parts.recurrence.recurrence import exact, exactly, recurrent
from anyformer.parts.recurrence.scan import scan
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits, each_once
from anyformer.plan import Plan

Projection = Literal["gate", "value", "output"]
PROJECTIONS: tuple[Projection, ...] = ("gate", "value", "output")
GATES = ("input_gate", "decay_gate")
_LEAST = 1e-12
"""The least 1 - a_t^2 under the root, whose gradient has no bound at 0."""


class RGLRU(Sublayer):
    """h_t = a_t h_{t-1} + sqrt(1 - a_t^2) i_t v_t, y = (h * act(x W_gate)) W_output, with log a_t = -c r_t softplus(decay).

    v: (B, T, W), the short convolution of x W_value; i = sigmoid(v U_i + b_i), r = sigmoid(v U_r + b_r): (B, T, W), both U
    block-diagonal in H blocks of W / H; decay: (W,); h: (W,), in fp32. The first token of a row or document enters whole, as
    a_t = 0. (De et al. 2024, arXiv 2402.19427, section 2.4; RecurrentGemma, 2404.07839.) The paper's Lambda is minus our
    decay; exp(-softplus(decay)) starts between 0.9 and 0.999. The scan is element-wise. The paper finds it worse than
    attention at copying and exact retrieval without fine-tuning (section 6.2).
    """

    kind: Literal["rg_lru"] = "rg_lru"
    channels: Count
    """Channels (W), each with a number of state; D or 4/3 D in the paper."""
    heads: Count
    """H, blocks of the gates' matrices."""
    convolution: ShortConvolution | None = None
    """Convolution of the values (the paper: kernel 4, bias)."""
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "gelu_tanh"
    """Activation of the output's gate."""
    strength: Positive = 8.0
    """c, the largest factor of a log-decay."""
    bias: Annotated[tuple[Projection, ...], each_once(*PROJECTIONS)] = ()
    """Projections that add a bias."""

    @model_validator(mode="after")
    def _consistent(self) -> RGLRU:
        if self.channels % self.heads:
            raise ValueError(f"channels must be a multiple of heads, got channels = {self.channels} and heads = {self.heads}")
        return self

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return (self.heads,)

    def narrowed(self, width: int, ways: int) -> Self | None:
        return None if self.heads % ways else self.but(channels=self.channels // ways, heads=self.heads // ways)

    def sketch(self, width: int) -> Sketch:
        W = number(self.channels)
        convolved = None if self.convolution is None else Cell(self.convolution.words, "mix")
        gates = fan(Cell(f"input gate, {self.heads} blocks", "pointwise"), Cell(f"decay, {self.heads} blocks", "memory"))
        mixed = chain(Cell(f"x {W}"), convolved, gates, Cell(f"state {W}", "memory"))
        gate = chain(Cell(f"gate {W}"), Cell(activation_name(self.activation, gated=False), "pointwise"))
        facts = biases(self.bias, len(PROJECTIONS))
        return Sketch("RG-LRU", facts, chain(fan(mixed, gate, join="×"), Cell(f"output {number(width)}")))

    @property
    def traits(self) -> Traits:
        return Traits("RG-LRU")

    def build(self, width: int, plan: Plan, name: str) -> RGLRUModule:
        return RGLRUModule(self, width)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, W = shape.batch, shape.rows, self.channels
        parts, inner, state = Tally(), {}, B * W * SUM_BYTES
        for name in ("gate", "value"):
            parts += matrix(name, width, W, rows, role="column", bias=name in self.bias)
        for name in GATES:
            parts += matrix(name, W, W, rows, role="column", bias=True, groups=self.heads)
            inner[f"{name}_activation"] = ACTIVATIONS["sigmoid"].cost(W, rows, gated=True)
        parts += matrix("output", W, width, rows, role="row", bias="output" in self.bias, fill="residual")
        if self.convolution is not None:
            inner["convolution"] = self.convolution.cost(W, rows)
            state += self.convolution.state_elements(W, B) * plan.activation_bytes
        inner["activation"] = ACTIVATIONS[self.activation].cost(W, rows, gated=True)
        parts += Tally({"decay": Weight((W,), "column", "time_step")})
        return parts + total(inner) + Tally(own_state=recurrent(state, shape, self.heads))

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * W sums and the convolution's latest inputs, for any capacity."""
        convolution = self.convolution
        recent = {} if convolution is None else {"value": convolution.state(self.channels, batch, dtype, device)}
        return RecurrentState.empty(batch, self.channels, device=device, convolutions=recent)


class RGLRUModule(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, lru: RGLRU, width: int) -> None:
        super().__init__()
        self.lru, W = lru, lru.channels
        self.gate = nn.Linear(width, W, bias="gate" in lru.bias)
        self.value = nn.Linear(width, W, bias="value" in lru.bias)
        self.convolution = lru.convolution.build(W) if lru.convolution else None
        self.input_gate, self.decay_gate = (GroupedLinear(W, W, lru.heads) for _ in GATES)
        self.decay = nn.Parameter(torch.empty(W))
        self.activation = ACTIVATIONS[lru.activation].build(W)
        self.output = nn.Linear(W, width, bias="output" in lru.bias)

    def extra_repr(self) -> str:
        return f"channels={self.lru.channels}, heads={self.lru.heads}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        value_BTW = self.value(x_BTD)
        if self.convolution is not None:
            value_BTW = self.convolution(value_BTW, context, None if state is None else state.convolutions["value"])
        mixed_BTW = self.recur(value_BTW, context, state).to(x_BTD.dtype)
        return self.output(mixed_BTW * self.activation(self.gate(x_BTD)))  # type: ignore[no-any-return]

    def recur(self, value: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        """The states in fp32 at least, (B, T, W), of convolved values."""
        opened, decayed = exact(self.input_gate(value)).sigmoid(), exact(self.decay_gate(value)).sigmoid()
        with exactly(value):
            log_decay = -self.lru.strength * decayed * nn.functional.softplus(exact(self.decay))
            kept = (-torch.expm1(2 * log_decay)).clamp(min=_LEAST).sqrt()
            first = (context.positions == 0)[..., None]
            write = exact(value) * opened * kept.masked_fill(first, 1)
            decay = log_decay.exp().masked_fill(first, 0)
            if context.valid is not None:
                # Padding writes nothing and decays nothing.
                padding = ~context.valid[..., None]
                write, decay = write.masked_fill(padding, 0), decay.masked_fill(padding, 1)
            if state is None:
                return scan(decay[:, 1:], write)
            entering = write[:, :1] + decay[:, :1] * state.sums.to(write.dtype)[:, None]
            states_BTW = scan(decay[:, 1:], torch.cat([entering, write[:, 1:]], 1))
            state.sums.copy_(states_BTW[:, -1])
            return states_BTW
