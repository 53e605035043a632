"""RG-LRU: a real-gated linear recurrence, one number of state per channel (Griffin, RecurrentGemma)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import model_validator

from anyformer.describe import Choice, Count, Positive
from anyformer.operations import Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.named_values import state_seen
from anyformer.parts.pointwise.activation import ACTIVATIONS, activation_name
from anyformer.parts.recurrence.recurrent_work import recurrent
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits, each_once
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.rg_lru_module import RGLRUModule


Projection = Literal["gate", "value", "output"]
PROJECTIONS: tuple[Projection, ...] = ("gate", "value", "output")
GATES = ("input_gate", "decay_gate")


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
        from anyformer.parts.recurrence.rg_lru_module import RGLRUModule

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

    def watchable(self, width: int) -> Watchables:
        channels = value("BTW", "values, convolved", W=self.channels)
        return {
            "value": channels,
            "mixed": replace(channels, about="the state at each position"),
            **state_seen("BW", W=self.channels),
            "gate": replace(channels, about="the gate, before its activation"),
            "hidden": replace(channels, about="what the output projection reads"),
        }

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * W sums and the convolution's latest inputs, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        convolution = self.convolution
        recent = {} if convolution is None else {"value": convolution.state(self.channels, batch, dtype, device)}
        return RecurrentState.empty(batch, self.channels, device=device, convolutions=recent)
