"""RWKV-7: time mixing by a generalised delta rule, in place of attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyformer.describe import Count, Positive, Value
from anyformer.operations import Fill, Shape, Tally, Weight, matrix, total
from anyformer.parts.attention.heads_sketch import heads_cell
from anyformer.parts.call.context import Context
from anyformer.parts.call.recurrent_state import SUM_BYTES, RecurrentState
from anyformer.parts.call.shared import Read
from anyformer.parts.norms.layer_norm import LayerNorm, of_each_head
from anyformer.parts.pointwise.activation import ACTIVATIONS, built_activation
from anyformer.parts.recurrence.generalised_delta import generalised_delta, generalised_delta_flops
from anyformer.parts.recurrence.recurrence import exact, exactly, recurrent
from anyformer.parts.recurrence.recurrent_heads import heads_first, split_heads, time_first
from anyformer.parts.recurrence.short_convolution import latest_input, previous
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

PROJECTIONS = ("receptance", "key", "value")
SIDES = (*PROJECTIONS, "decay", "rate", "gate")
"""What reads a mix of its own of a token and the one before."""


@dataclass(frozen=True)
class LowRank:
    """outer(inner(x A) B + bias), A (D, P) and B (P, W): (B, T, D) -> (B, T, W), in fp32 at least behind B."""

    inner: str | None = None
    """Activation by name; None: none."""
    outer: str | None = None
    start: Fill | None = None
    """The initial value of the bias; None: there is none."""

    def build(self, width: int, rank: int, outputs: int) -> LowRankModule:
        return LowRankModule(self, width, rank, outputs)

    def cost(self, width: int, rank: int, outputs: int, rows: int) -> Tally:
        """Weights and work for `rows` rows; processes divide the W outputs."""
        parts = matrix("down", width, rank, rows, role="replicate") + matrix("up", rank, outputs, rows, role="column")
        if self.start is not None:
            parts += Tally({"bias": Weight((outputs,), "column", self.start)})
        activations = {"inner": (self.inner, rank), "outer": (self.outer, outputs)}
        return parts + total(
            {name: ACTIVATIONS[each].cost(features, rows) for name, (each, features) in activations.items() if each is not None}
        )


class LowRankModule(nn.Module):
    """(B, T, D) -> (B, T, W)."""

    def __init__(self, part: LowRank, width: int, rank: int, outputs: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)
        self.bias = None if part.start is None else nn.Parameter(torch.empty(outputs))
        self.inner, self.outer = built_activation(part.inner, rank), built_activation(part.outer, outputs)

    def forward(self, x_BTD: Tensor) -> Tensor:
        y = exact(self.up(self.inner(self.down(x_BTD))))
        return self.outer(y if self.bias is None else y + exact(self.bias))  # type: ignore[no-any-return]


GATES = {
    "decay": LowRank("tanh", "sigmoid", "time_step"),
    "rate": LowRank(None, "sigmoid", "zeros"),
    "gate": LowRank("sigmoid"),
    "value_gate": LowRank(None, "sigmoid", "zeros"),
}
LEFT = "values of a state"
"""The values that a layer leaves for later ones, (B, T, H, E): not those of attention, of which a process may have some."""
STRENGTH = math.exp(-0.5)
"""The largest rate of decay: no step keeps less than exp(-STRENGTH), 0.545, of a channel."""


class ValueGate(Value):
    """v' = v + g * (v_other - v), g = sigmoid(bias + xv A B), v_other: an earlier layer's values, A (D, P), B (P, H * E).

    RWKV-7: v_other is the first layer's (Peng et al. 2025, arXiv 2503.14456). In `ValueResidual` the shares are two numbers.
    """

    variant: str
    """The variant whose latest layer before this one has v_other: the first layer's values need a variant of its own."""
    rank: Count
    """Features (P) between the factors A and B."""


class RWKV7(Sublayer):
    """S_t = (diag(w_t) - (a_t * kappa_t) kappa_t^T) S_{t-1} + k_t v_t^T, y = (g * (norm(S_t^T r) + (r . bonus * k_t) v_t)) W_o.

    Per head of width E: S (E, E) in fp32, transposed to the paper's. r, k', v, w, a, g read x_t + mix * (x_{t-1} - x_t),
    each with a mix (D,) of its own; r, k', v: its product with a matrix (D, H * E); w = exp(-exp(-1/2) sigmoid(d)), d = bias +
    tanh(x A) B; learning rate a = sigmoid(bias + x A B); gate g = sigmoid(x A) B; kappa = removal * k' divided by its length; k
    = k' * (1 + replacement * (a - 1)); a norm with a gain per channel for each head. (RWKV-7 "Goose", Peng et al. 2025, arXiv
    2503.14456.) Unlike the paper's, initial values do not depend on layer and channel: a step forgets 0.06 to 6 %.
    """

    kind: Literal["rwkv7"] = "rwkv7"
    heads: Count
    """H, heads and states."""
    head_width: Count = 64
    """E, features of a head."""
    decay_rank: Count
    """Features (P) between the factors of what gives w."""
    rate_rank: Count
    """Features (P) between those of a."""
    gate_rank: Count
    """Features (P) between those of g."""
    value_gate: ValueGate | None = None
    """How values mix with those of an earlier layer; the first layer has none."""
    eps: Positive = 64e-5
    """eps of the norm of each head."""

    @property
    def channels(self) -> int:
        """H * E."""
        return self.heads * self.head_width

    @property
    def ranks(self) -> dict[str, int]:
        """Features between the factors of each gate."""
        ranks = {"decay": self.decay_rank, "rate": self.rate_rank, "gate": self.gate_rank}
        return ranks if self.value_gate is None else ranks | {"value_gate": self.value_gate.rank}

    @property
    def norm(self) -> LayerNorm:
        """The norm of each head."""
        return LayerNorm(eps=self.eps)

    @property
    def reads(self) -> tuple[Read, ...]:
        return () if self.value_gate is None else (Read(LEFT, self.value_gate.variant, size=self.heads * self.head_width),)

    @property
    def leaves(self) -> Mapping[str, int]:
        return {LEFT: self.heads * self.head_width}

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return (self.heads,)

    def narrowed(self, width: int, ways: int) -> Self | None:
        return None if self.heads % ways else self.but(heads=self.heads // ways)

    def sketch(self, width: int) -> Sketch:
        H, E = self.heads, self.head_width
        other = None if self.value_gate is None else Cell(f"with values of the latest {self.value_gate.variant} layer", "mix")
        value = chain(heads_cell("v", H, E), other)
        rates = Cell(f"decay, rank {self.decay_rank} · learning rate, rank {self.rate_rank}", "memory")
        read = fan(heads_cell("r", H, E), heads_cell("k", H, E), value, rates)
        state = Cell(f"state {H} × ({E} × {E}), generalised delta rule", "memory")
        gate = chain(Cell(f"gate, rank {self.gate_rank}"), Cell("sigmoid", "pointwise"))
        mixed = fan(
            chain(read, state, Cell("norm of each head", "norm")), Cell("bonus of the token itself", "pointwise"), join="+"
        )
        shift = Cell("mix with the token before", "mix")
        return Sketch("RWKV-7 time mixing", (), chain(shift, fan(mixed, gate, join="×"), Cell(f"output {number(width)}")))

    @property
    def traits(self) -> Traits:
        return Traits("RWKV-7")

    def build(self, width: int, plan: Plan, name: str) -> RWKV7Module:
        return RWKV7Module(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, H, E, W = shape.batch, shape.rows, self.heads, self.head_width, self.channels
        parts = Tally({f"{side}_mix": Weight((width,), "replicate", 0.5) for side in SIDES})
        for name in PROJECTIONS:
            parts += matrix(name, width, W, rows, role="column")
        parts += matrix("output", W, width, rows, role="row", fill="residual")
        starts: dict[str, float] = {"removal": 1.0, "replacement": 1.0, "bonus": 0.0, "norm.weight": 1.0, "norm.bias": 0.0}
        parts += Tally({name: Weight((W,), "column", start) for name, start in starts.items()})
        parts += Tally(own_work={"norm": self.norm.work(W, rows, groups=H)})
        inner = {name: GATES[name].cost(width, rank, W, rows) for name, rank in self.ranks.items()}
        scan = generalised_delta_flops(B, H, E, E, shape.length, plan.chunk)
        state = B * H * E * E * SUM_BYTES + B * width * plan.activation_bytes
        return parts + total(inner) + scan + Tally(own_state=recurrent(state, shape))

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * H * E * E sums and the latest input, for any capacity."""
        latest = latest_input(width, batch, dtype, device)
        shape = (batch, self.heads, 1, self.head_width, self.head_width)
        return RecurrentState.empty(*shape, device=device, convolutions={"x": latest})


class RWKV7Module(nn.Module):
    """(B, T, D) -> (B, T, D)."""

    def __init__(self, rwkv: RWKV7, width: int, plan: Plan) -> None:
        super().__init__()
        self.rwkv, self.chunk, W = rwkv, plan.chunk, rwkv.channels
        for side in SIDES:
            self.register_parameter(f"{side}_mix", nn.Parameter(torch.empty(width)))
        for name in PROJECTIONS:
            self.add_module(name, nn.Linear(width, W, bias=False))
        for name, rank in rwkv.ranks.items():
            self.add_module(name, GATES[name].build(width, rank, W))
        self.removal, self.replacement, self.bonus = (nn.Parameter(torch.empty(W)) for _ in range(3))
        self.norm = of_each_head(rwkv.norm, rwkv.heads, rwkv.head_width)
        self.output = nn.Linear(W, width, bias=False)

    def extra_repr(self) -> str:
        return f"heads={self.rwkv.heads}, head_width={self.rwkv.head_width}"

    def forward(self, x_BTD: Tensor, context: Context, state: RecurrentState | None = None) -> Tensor:
        change = previous(x_BTD, context, None if state is None else state.convolutions["x"]) - x_BTD
        reads = {side: torch.addcmul(x_BTD, change, self.get_parameter(f"{side}_mix").to(x_BTD.dtype)) for side in SIDES}
        receptance, key, value = (self.get_submodule(name)(reads[name]) for name in PROJECTIONS)
        if self.rwkv.value_gate is not None:
            other = context.shared[self.rwkv.value_gate.variant, LEFT].flatten(2)
            value = (value + (other - value) * self.get_submodule("value_gate")(reads["value"])).to(value.dtype)
        if context.variant is not None:
            context.leave(LEFT, split_heads(value, self.rwkv.heads))
        decay, rate, gate = (self.get_submodule(name)(reads[name]) for name in ("decay", "rate", "gate"))
        mixed, own = self.recur(receptance, key, value, decay, rate, context, state)
        gated = (self.norm(mixed) + own) * gate
        return self.output(gated.to(x_BTD.dtype))  # type: ignore[no-any-return]

    def recur(
        self, receptance: Tensor, key: Tensor, value: Tensor, decay: Tensor, rate: Tensor, context: Context,
        state: RecurrentState | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """What the state gives and what the token itself does, (B, T, H * E), in fp32 at least; decay and rate in (0, 1)."""
        H = self.rwkv.heads
        with exactly(receptance):
            key = exact(key)
            removed = F.normalize(split_heads(key * exact(self.removal), H), dim=-1)
            key = key * (1 + (rate - 1) * exact(self.replacement))
            log_decay = -STRENGTH * decay
            if context.valid is not None:
                # Padding takes nothing out, writes nothing and decays nothing.
                padding = ~context.valid[..., None]
                key, rate, log_decay = (x.masked_fill(padding, 0) for x in (key, rate, log_decay))
            r, k, v, a, g = (split_heads(exact(x), H) for x in (receptance, key, value, rate, log_decay))
            own = (r * k * split_heads(exact(self.bonus), H)).sum(-1, keepdim=True) * v
            r, k, v, removed, g = (heads_first(x, H) for x in (r, k, v, removed, g))
            mixed, sums = generalised_delta(
                r,
                k,
                v,
                removed,
                heads_first(a, H) * removed,
                g,
                None if state is None else state.sums.to(k.dtype),
                chunk=self.chunk,
                segments=context.segments,
            )
            if state is not None:
                state.sums.copy_(sums)
            return time_first(mixed).flatten(2), own.flatten(2)
