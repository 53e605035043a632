"""Mamba-3: a state-space layer by the trapezoidal rule, whose keys and queries turn by angles that tokens choose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import model_validator

from anyformer.describe import Count, NotNegative
from anyformer.operations import Fill, Role, Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.operations.elementwise import rotated
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.heads_sketch import heads_cell
from anyformer.parts.attention.named_values import put_out_seen, state_seen
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.recurrence.recurrent_work import linear_flops, recurrent
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits, each_once
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.mamba3_module import Mamba3Module


Projection = Literal["gate", "value", "key", "query", "step", "decay", "trapezoid", "angle", "output"]
PROJECTIONS: tuple[Projection, ...] = ("gate", "value", "key", "query", "step", "decay", "trapezoid", "angle", "output")


class Mamba3(Sublayer):
    """S_t = a_t S_{t-1} + (1 - s_t) dt_t a_t k_{t-1} v_{t-1}^T + s_t dt_t k_t v_t^T, o_t = q_t S_t + skip * v_t, all per head.

    a_t = exp(-dt_t max(softplus(x W_decay), floor)), dt = softplus(x W_step + dt_bias), s = sigmoid(x W_trapezoid): (B, T, H);
    k = norm(x W_key) + key_bias, q likewise: (B, T, H, M), of a group's key (B, T, K, M); pair i of their features turns by the
    sum of dt_t pi tanh(x W_angle)_i so far, so that the state is one of complex numbers; then y = (norm(o) * silu(x W_gate))
    W_o, v and o (B, T, H, E). State: S (M, E) per head, the last k and v, the angles, in fp32. No short convolution. (Lahoti et
    al. 2026, arXiv 2603.15569, with one input and one output per head: not its MIMO form, whose heads write several keys a
    token.) The paper's B, C, x, z, lambda are our key, query, value, gate, s. Newer published code has another function than
    softplus for the decay.
    """

    kind: Literal["mamba3"] = "mamba3"
    heads: Count
    """H, heads of values, steps and states."""
    head_width: Count
    """E, features of a value head."""
    state_width: Count
    """M, features of a key or query."""
    groups: Count = 1
    """Heads of keys and queries (K) before the biases, each of which H / K states share."""
    angles: Count | None = None
    """R / 2, pairs of features of a key that turn (the paper: M / 4 or M / 2); None: the state is real."""
    decay_floor: NotNegative = 1e-4
    """The smallest rate of decay."""
    qk_norm: Norm | None = None
    """Norm of each query and key before its bias (the paper: RMSNorm)."""
    norm: Norm | None = None
    """Norm of all heads side by side, before the gate."""
    bias: Annotated[tuple[Projection, ...], each_once(*PROJECTIONS)] = ()
    """Projections that add a bias."""

    @model_validator(mode="after")
    def _consistent(self) -> Mamba3:
        if self.heads % self.groups:
            raise ValueError(f"heads must be a multiple of groups, got heads = {self.heads} and groups = {self.groups}")
        if 2 * (self.angles or 0) > self.state_width:
            raise ValueError(
                f"angles turn pairs of the state_width features, so there are at most {self.state_width // 2}, got angles = "
                f"{self.angles} and state_width = {self.state_width}"
            )
        if self.angles is None and "angle" in self.bias:
            raise ValueError('bias names "angle", but there are no angles: leave it out, or give angles')
        return self

    @property
    def outputs(self) -> dict[str, int]:
        """Features of each projection that reads the stream."""
        values, keys = self.heads * self.head_width, self.groups * self.state_width
        sizes = (values, values, keys, keys, self.heads, self.heads, self.heads, self.angles or 0)
        return {name: size for name, size in zip(PROJECTIONS, sizes, strict=False) if size}

    @property
    def held(self) -> dict[str, int]:
        """Features of what the state holds beside the sums."""
        sizes = {"key": self.state_width, "value": self.head_width, "angle": self.angles or 0}
        return {name: self.heads * size for name, size in sizes.items() if size}

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return self.heads, self.groups

    def narrowed(self, width: int, ways: int) -> Self | None:
        if self.groups % ways or self.norm is not None:
            return None
        return self.but(heads=self.heads // ways, groups=self.groups // ways)

    def sketch(self, width: int) -> Sketch:
        H, E, K, M = self.heads, self.head_width, self.groups, self.state_width
        keys = chain(
            fan(heads_cell("B", K, M), heads_cell("C", K, M)),
            None if self.qk_norm is None else Cell("norm of each", "norm"),
            Cell(f"bias of each of {H} heads", "pointwise"),
            None if self.angles is None else Cell(f"turned by {self.angles} angles of the token", "mix"),
        )
        read = fan(heads_cell("x", H, E), keys, Cell(f"dt, decay, share {H}", "memory"))
        state = Cell(f"state {H} × ({M} × {E}), trapezoidal", "memory")
        mixed = chain(read, state, None if self.norm is None else Cell("norm of all heads", "norm"))
        gate = chain(Cell(f"gate {number(H * E)}"), Cell("silu", "pointwise"))
        inner = chain(fan(mixed, gate, join="×"), Cell(f"output {number(width)}"))
        return Sketch("Mamba-3", biases(self.bias, len(self.outputs) + 1), inner)

    @property
    def traits(self) -> Traits:
        return Traits("Mamba-3")

    def check(self, width: int) -> None:
        if self.qk_norm is not None:
            self.qk_norm.check(self.state_width)
        if self.norm is not None:
            self.norm.check(self.heads * self.head_width)

    def build(self, width: int, plan: Plan, name: str) -> Mamba3Module:
        from anyformer.parts.recurrence.mamba3_module import Mamba3Module

        return Mamba3Module(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, H, E, M = shape.batch, shape.rows, self.heads, self.head_width, self.state_width
        parts = Tally()
        for name, features in self.outputs.items():
            # The angles turn the keys of every head.
            role: Role = "replicate" if name == "angle" else "column"
            parts += matrix(name, width, features, rows, role=role, bias=name in self.bias)
        parts += matrix("output", H * E, width, rows, role="row", bias="output" in self.bias, fill="residual")
        fills: dict[str, Fill] = {"dt_bias": "time_step", "skip": "ones"}
        parts += Tally({name: Weight((H,), "column", fill) for name, fill in fills.items()})
        parts += Tally({f"{name}_bias": Weight((H, M), "column", "ones", linear=False) for name in ("key", "query")})
        inner = {"gate_activation": ACTIVATIONS["silu"].cost(H * E, rows, gated=True)}
        if self.qk_norm is not None:
            inner |= {f"{name}_norm": self.qk_norm.cost(M, rows * self.groups) for name in ("key", "query")}
        if self.norm is not None:
            inner["norm"] = self.norm.cost(H * E, rows)
        if self.angles is not None:
            parts += Tally(own_work={"rotary": rotated(2 * rows * H * 2 * self.angles)})
        held = B * (H * M * E + sum(self.held.values())) * SUM_BYTES
        scan = linear_flops(B, H, H, M, E, shape.length, plan.chunk)
        return parts + scan + total(inner) + Tally(own_state=recurrent(held, shape, H))

    def watchable(self, width: int) -> Watchables:
        H, E, M = self.heads, self.head_width, self.state_width
        head, key = value("BTHE", "values", H=H, E=E), value("BTHM", "keys, with their biases", H=H, M=M)
        return {
            "time_step": value("BTH", "time steps", H=H),
            "key": key,
            "query": replace(key, about="queries, with their biases"),
            "value": head,
            **state_seen("BHnME", H=H, n=1, M=M, E=E),
            "gate": replace(head, about="the gate, before its silu"),
            "mixed": replace(head, about="what each head read of its state, and the values past it"),
            **put_out_seen((H, E), width),
        }

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * H * M * E sums, the last key and value and the angles so far, for any capacity."""
        import torch

        from anyformer.parts.call.recurrent_state import RecurrentState
        from anyformer.parts.recurrence.short_convolution_module import latest_input

        held = {name: latest_input(features, batch, torch.float32, device) for name, features in self.held.items()}
        shape = (batch, self.heads, 1, self.state_width, self.head_width)
        return RecurrentState.empty(*shape, device=device, convolutions=held)
