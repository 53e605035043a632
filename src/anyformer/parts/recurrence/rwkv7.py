"""RWKV-7: time mixing by a generalised delta rule, in place of attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

from anyformer.describe import Count, Positive, Value
from anyformer.operations import Fill, Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.heads_sketch import heads_cell
from anyformer.parts.attention.named_values import put_out_seen, state_seen
from anyformer.parts.call.shared import Read
from anyformer.parts.norms.layer_norm import LayerNorm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.recurrence.recurrent_work import generalised_delta_flops, recurrent
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.rwkv7_module import RWKV7Module


PROJECTIONS = ("receptance", "key", "value")
SIDES = (*PROJECTIONS, "decay", "rate", "gate")
"""What reads a mix of its own of a token and the one before."""


LEFT = "values of a state"
"""The values that a layer leaves for later ones, (B, T, H, E): not those of attention, of which a process may have some."""


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
    = k' * (1 + replacement * (a - 1)); a norm per head, with a gain per channel. (RWKV-7 "Goose", Peng et al. 2025, arXiv
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
        from anyformer.parts.recurrence.rwkv7_module import RWKV7Module

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

    def watchable(self, width: int) -> Watchables:
        H, E = self.heads, self.head_width
        head = value("BTHE", "receptance, which reads the state", H=H, E=E)
        return {
            "receptance": head,
            "key": replace(head, about="keys"),
            "value": replace(head, about="values"),
            **state_seen("BHnME", H=H, n=1, M=E, E=E),
            "mixed": replace(head, about="what each head read of its state"),
            **put_out_seen((H, E), width),
        }

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * H * E * E sums and the latest input, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState
        from anyformer.parts.recurrence.short_convolution_module import latest_input

        latest = latest_input(width, batch, dtype, device)
        shape = (batch, self.heads, 1, self.head_width, self.head_width)
        return RecurrentState.empty(*shape, device=device, convolutions={"x": latest})


@dataclass(frozen=True)
class LowRank:
    """outer(inner(x A) B + bias), A (D, P) and B (P, W): (B, T, D) -> (B, T, W), in fp32 at least behind B."""

    inner: str | None = None
    """Activation by name; None: none."""
    outer: str | None = None
    start: Fill | None = None
    """The initial value of the bias; None: there is none."""

    def cost(self, width: int, rank: int, outputs: int, rows: int) -> Tally:
        """Weights and work for `rows` rows; processes divide the W outputs."""
        parts = matrix("down", width, rank, rows, role="replicate") + matrix("up", rank, outputs, rows, role="column")
        if self.start is not None:
            parts += Tally({"bias": Weight((outputs,), "column", self.start)})
        activations = {"inner": (self.inner, rank), "outer": (self.outer, outputs)}
        return parts + total(
            {name: ACTIVATIONS[each].cost(features, rows) for name, (each, features) in activations.items() if each is not None}
        )


GATES = {
    "decay": LowRank("tanh", "sigmoid", "time_step"),
    "rate": LowRank(None, "sigmoid", "zeros"),
    "gate": LowRank("sigmoid"),
    "value_gate": LowRank(None, "sigmoid", "zeros"),
}
