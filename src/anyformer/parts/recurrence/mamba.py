"""Mamba: a state-space layer in which every channel has a state, and what it reads and writes is chosen by the input."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from anyformer.describe import Count
from anyformer.operations import Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.named_values import state_seen
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.recurrence.recurrent_work import recurrent, scan_flops
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, biases, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits, each_once
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.mamba_module import MambaModule


Projection = Literal["gate", "value", "output"]
PROJECTIONS: tuple[Projection, ...] = ("gate", "value", "output")
NARROW = ("step", "key", "query")


class Mamba(Sublayer):
    """h_t = exp(-dt_t exp(A_log)) h_{t-1} + dt_t v_t k_t^T, o_t = h_t q_t + skip * v_t, then (o * silu(x W_gate)) W_o.

    v: (B, T, W), the short convolution of x W_value; k = v W_key and q = v W_query: (B, T, M), shared by all channels;
    dt = softplus(v W_down W_step + dt_bias): (B, T, W), W_down: (W, P); A_log: (W, M), dt_bias and skip: (W,); h: (W, M), in
    fp32 (Gu & Dao 2023, arXiv 2312.00752: the selective scan, S6). The paper's x, B, C, z, Delta are our value, key, query,
    gate, step; its D is skip, N is M. The scan is element-wise but for q, which alone has FLOPs.
    """

    kind: Literal["mamba"] = "mamba"
    channels: Count
    """Channels (W), each with a state of its own; 2 D in the paper."""
    state_width: Count
    """M, entries of a channel's state; 16 in the paper."""
    step_rank: Count
    """Features (P) through which dt is computed; D / 16 in the paper."""
    convolution: ShortConvolution | None = None
    """Convolution of the values (the paper: kernel 4, silu, bias)."""
    inner_norm: Norm | None = None
    """Norms of the narrow steps, the keys and the queries, each with a gain of its own (Jamba 2403.19887, Falcon Mamba
    2410.05355)."""
    bias: Annotated[tuple[Projection, ...], each_once(*PROJECTIONS)] = ()
    """Projections that add a bias."""

    @property
    def narrow(self) -> dict[str, int]:
        """Features of what each value is projected to."""
        return {"step": self.step_rank, "key": self.state_width, "query": self.state_width}

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return (self.channels,)

    def sketch(self, width: int) -> Sketch:
        W, M, P = self.channels, self.state_width, self.step_rank
        convolved = None if self.convolution is None else Cell(self.convolution.words, "mix")
        norm = None if self.inner_norm is None else Cell("norms", "norm")
        chosen = chain(fan(Cell(f"dt {P}"), Cell(f"B {M}"), Cell(f"C {M}")), norm)
        state = Cell(f"state {number(W)} × {M}, selective scan", "memory")
        mixed = chain(Cell(f"x {number(W)}"), convolved, chosen, state)
        gate = chain(Cell(f"gate {number(W)}"), Cell("silu", "pointwise"))
        facts = biases(self.bias, len(PROJECTIONS))
        return Sketch("Mamba", facts, chain(fan(mixed, gate, join="×"), Cell(f"output {number(width)}")))

    @property
    def traits(self) -> Traits:
        return Traits("Mamba")

    def check(self, width: int) -> None:
        if self.inner_norm is not None:
            for features in self.narrow.values():
                self.inner_norm.check(features)

    def build(self, width: int, plan: Plan, name: str) -> MambaModule:
        from anyformer.parts.recurrence.mamba_module import MambaModule

        return MambaModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, W, M = shape.batch, shape.rows, self.channels, self.state_width
        parts, inner, state = Tally(), {}, B * W * M * SUM_BYTES
        for name in ("gate", "value"):
            parts += matrix(name, width, W, rows, role="column", bias=name in self.bias)
        for name, features in self.narrow.items():
            parts += matrix(f"{name}_down" if name == "step" else name, W, features, rows, role="row")
            if self.inner_norm is not None:
                inner[f"{name}_norm"] = self.inner_norm.cost(features, rows)
        parts += matrix("step", self.step_rank, W, rows, role="column")
        parts += matrix("output", W, width, rows, role="row", bias="output" in self.bias, fill="residual")
        if self.convolution is not None:
            inner["convolution"] = self.convolution.cost(W, rows)
            state += self.convolution.state_elements(W, B) * plan.activation_bytes
        inner["gate_activation"] = ACTIVATIONS["silu"].cost(W, rows, gated=True)
        parts += Tally({
            "A_log": Weight((W, M), "column", "log_rate", linear=False),
            "dt_bias": Weight((W,), "column", "time_step"),
            "skip": Weight((W,), "column", "ones"),
        })  # fmt: skip
        return parts + scan_flops(B, W, M, shape.length) + total(inner) + Tally(own_state=recurrent(state, shape))

    def watchable(self, width: int) -> Watchables:
        W, M = self.channels, self.state_width
        channels, key = value("BTW", "values, convolved", W=W), value("BTM", "keys (B in the paper)", M=M)
        return {
            "gate": replace(channels, about="the gate, before its silu"),
            "value": channels,
            "key": key,
            "query": replace(key, about="queries (C in the paper)"),
            "time_step": replace(channels, about="time steps"),
            **state_seen("BWM", W=W, M=M),
            "mixed": replace(channels, about="what was read of the state, and the values past it"),
            "hidden": replace(channels, about="what the output projection reads"),
        }

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * W * M sums and the convolution's latest inputs, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        convolution = self.convolution
        recent = {} if convolution is None else {"value": convolution.state(self.channels, batch, dtype, device)}
        return RecurrentState.empty(batch, self.channels, self.state_width, device=device, convolutions=recent)
