"""Mamba-2: a state-space layer whose heads each have one decay, computed in chunks of matrix products."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import model_validator

from anyformer.describe import Count, NotNegative, Positive, Value
from anyformer.operations import Fill, Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.heads_sketch import heads_cell
from anyformer.parts.attention.named_values import put_out_seen, state_seen
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.recurrence.recurrent_work import linear_flops, recurrent
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits, each_once
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.mamba2_module import Mamba2Module


Projection = Literal["gate", "value", "key", "query", "step", "output"]
PROJECTIONS: tuple[Projection, ...] = ("gate", "value", "key", "query", "step", "output")
CONVOLVED = ("value", "key", "query")


class Multipliers(Value):
    """Constant factors of what Mamba-2 projects, before the convolution (Falcon-H1's muP, arXiv 2507.22448)."""

    gate: Positive = 1.0
    value: Positive = 1.0
    key: Positive = 1.0
    query: Positive = 1.0
    step: Positive = 1.0

    @model_validator(mode="after")
    def _some(self) -> Multipliers:
        if all(factor == 1 for factor in self.by_name.values()):
            raise ValueError("all factors are 1: leave multipliers out")
        return self

    @property
    def by_name(self) -> dict[str, float]:
        """The factor of each projection."""
        return {"gate": self.gate, "value": self.value, "key": self.key, "query": self.query, "step": self.step}


class Mamba2(Sublayer):
    """S_t = exp(-dt_t exp(A_log)) S_{t-1} + dt_t k_t v_t^T, o_t = q_t S_t + skip * v_t, then norm(o * silu(x W_gate)) W_o.

    v: (B, T, H, E), k and q: (B, T, K, M), short convolutions of x W; dt = softplus(x W_step + dt_bias): (B, T, H), clamped;
    A_log, dt_bias and skip: (H,); S: (M, E) per head, in fp32, its keys and queries those of its group (Dao & Gu 2024, arXiv
    2405.21060: state-space duality). The paper's x, B, C, z are our value, key, query, gate; its D is skip, P is E, N is M.
    """

    kind: Literal["mamba2"] = "mamba2"
    heads: Count
    """H, heads of values, steps and states."""
    head_width: Count
    """E, features of a value head."""
    state_width: Count
    """M, features of a key or query."""
    groups: Count = 1
    """Heads of keys and queries (K), each of which H / K states share."""
    convolution: ShortConvolution | None = None
    """Convolution of values, keys and queries, each with weights of its own (the paper: kernel 4, silu, bias)."""
    step_floor: NotNegative = 0.0
    """The smallest dt."""
    step_ceiling: Positive | None = None
    """The largest dt."""
    norm: Norm | None = None
    """Norm of all heads side by side (the paper: RMSNorm, by groups where several processes share the heads)."""
    gate_at: Literal["before_norm", "after_norm"] = "before_norm"
    """Where the gate multiplies."""
    bias: Annotated[tuple[Projection, ...], each_once(*PROJECTIONS)] = ()
    """Projections that add a bias."""
    multipliers: Multipliers | None = None
    """Factors of the projections, biases included."""

    @model_validator(mode="after")
    def _consistent(self) -> Mamba2:
        if self.heads % self.groups:
            raise ValueError(f"heads must be a multiple of groups, got heads = {self.heads} and groups = {self.groups}")
        if self.step_ceiling is not None and self.step_ceiling < self.step_floor:
            raise ValueError(
                f"step_ceiling must not be below step_floor, got step_ceiling = {self.step_ceiling:g} and "
                f"step_floor = {self.step_floor:g}"
            )
        return self

    @property
    def widths(self) -> dict[str, int]:
        """Features of each projection that may be convolved."""
        keys = self.groups * self.state_width
        return {"value": self.heads * self.head_width, "key": keys, "query": keys}

    @property
    def outputs(self) -> dict[str, int]:
        """Features of each projection that reads the stream."""
        return {"gate": self.heads * self.head_width, **self.widths, "step": self.heads}

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return self.heads, self.groups

    def narrowed(self, width: int, ways: int) -> Self | None:
        if self.groups % ways or self.norm is not None:
            return None
        return self.but(heads=self.heads // ways, groups=self.groups // ways)

    def sketch(self, width: int) -> Sketch:
        H, E, K, M = self.heads, self.head_width, self.groups, self.state_width
        read = fan(heads_cell("x", H, E), heads_cell("B", K, M), heads_cell("C", K, M))
        convolved = None if self.convolution is None else Cell(self.convolution.words, "mix")
        state = fan(chain(read, convolved), Cell(f"dt {H}", "memory"))
        mixed = chain(state, Cell(f"state {H} × ({M} × {E}), decay per head", "memory"))
        gate = chain(Cell(f"gate {number(H * E)}"), Cell("silu", "pointwise"))
        norm = None if self.norm is None else Cell("norm of all heads", "norm")
        before = self.gate_at == "before_norm"
        gated = chain(fan(mixed, gate, join="×"), norm) if before else fan(chain(mixed, norm), gate, join="×")
        return Sketch("Mamba-2", biases(self.bias, len(PROJECTIONS)), chain(gated, Cell(f"output {number(width)}")))

    @property
    def traits(self) -> Traits:
        return Traits("Mamba-2")

    def check(self, width: int) -> None:
        if self.norm is not None:
            self.norm.check(self.heads * self.head_width)

    def build(self, width: int, plan: Plan, name: str) -> Mamba2Module:
        from anyformer.parts.recurrence.mamba2_module import Mamba2Module

        return Mamba2Module(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, H, E, M = shape.batch, shape.rows, self.heads, self.head_width, self.state_width
        parts, inner, state = Tally(), {}, B * H * M * E * SUM_BYTES
        for name, features in self.outputs.items():
            parts += matrix(name, width, features, rows, role="column", bias=name in self.bias)
        if self.convolution is not None:
            for name, features in self.widths.items():
                inner[f"{name}_convolution"] = self.convolution.cost(features, rows)
                state += self.convolution.state_elements(features, B) * plan.activation_bytes
        parts += matrix("output", H * E, width, rows, role="row", bias="output" in self.bias, fill="residual")
        inner["gate_activation"] = ACTIVATIONS["silu"].cost(H * E, rows, gated=True)
        if self.norm is not None:
            inner["norm"] = self.norm.cost(H * E, rows)
        fills: dict[str, Fill] = {"A_log": "log_rate", "dt_bias": "time_step", "skip": "ones"}
        vectors = Tally({name: Weight((H,), "column", fill) for name, fill in fills.items()})
        scan = linear_flops(B, H, H, M, E, shape.length, plan.chunk, pairs=self.groups)
        return parts + vectors + scan + total(inner) + Tally(own_state=recurrent(state, shape, H))

    def watchable(self, width: int) -> Watchables:
        H, E, K, M = self.heads, self.head_width, self.groups, self.state_width
        head, key = value("BTHE", "values, convolved", H=H, E=E), value("BTKM", "keys (B in the paper)", K=K, M=M)
        return {
            "value": head,
            "key": key,
            "query": replace(key, about="queries (C in the paper)"),
            "time_step": value("BTH", "time steps", H=H),
            **state_seen("BKGME", K=K, G=H // K, M=M, E=E),
            "mixed": replace(head, about="what each head read of its state, and the values past it"),
            "gate": replace(head, about="the gate, before its silu"),
            **put_out_seen((H, E), width),
        }

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * H * M * E sums and the convolutions' latest inputs, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        convolution, K = self.convolution, self.groups
        recent = (
            {} if convolution is None else {name: convolution.state(w, batch, dtype, device) for name, w in self.widths.items()}
        )
        sums = (batch, K, self.heads // K, self.state_width, self.head_width)
        return RecurrentState.empty(*sums, device=device, convolutions=recent)
