"""mLSTM: heads with a matrix memory, exponential input gates and a normaliser (xLSTM)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, Self

from anyformer.describe import Count, Positive
from anyformer.operations import Product, Shape, Tally, Watchables, Weight, matrix, sized, total, value
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
    from anyformer.parts.recurrence.mlstm_module import MLSTMModule


Projection = Literal["query", "key", "value", "gate", "output"]
PROJECTIONS: tuple[Projection, ...] = ("query", "key", "value", "gate", "output")
GATES: dict[str, float] = {"input_gate": -10.0, "forget_gate": 4.0}
"""The gates of the memory, and where their biases start (the paper: -10, and 3 to 6 over the heads)."""


class MLSTM(Sublayer):
    """C_t = f_t C_{t-1} + i_t k_t v_t^T, n_t = f_t n_{t-1} + i_t k_t, h_t = C_t^T q_t / max(|n_t q_t|, 1), all per head.

    f = sigmoid(cap(x W_f + b_f)), i = exp(cap(x W_i + b_i)): (B, T, H), cap(z) = c tanh(z / c); q, k: (B, T, H, M), v: (B,
    T, H, E), q divided by sqrt(M); then y = (norm(h) * sigmoid(x W_gate)) W_output (Beck et al. 2024, arXiv 2405.04517; capped
    gates and this layer: xLSTM 7B, 2503.13427). n is one more feature of the values, all 1; C and n in fp32. The cap bounds
    i by exp(c), so that no running maximum of the exponents is kept; the reference adds 1e-6 times its exponential to the
    normaliser, which is left out here.
    """

    kind: Literal["mlstm"] = "mlstm"
    heads: Count
    """H, heads and memories."""
    key_width: Count
    """M, features of a query or key; E / 2 in xLSTM 7B."""
    value_width: Count
    """E, features of a value."""
    gate_cap: Positive = 15.0
    """c, the bound of the gates' inputs."""
    norm: Norm | None = None
    """Norm of all heads side by side (the paper: LayerNorm of each head)."""
    bias: Annotated[tuple[Projection, ...], each_once(*PROJECTIONS)] = ()
    """Projections that add a bias, beside the gates of the memory, which have one."""

    @property
    def outputs(self) -> dict[str, int]:
        """Features of each projection that reads the stream."""
        keys, values = self.heads * self.key_width, self.heads * self.value_width
        return {"query": keys, "key": keys, "value": values, "gate": values}

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return (self.heads,)

    def narrowed(self, width: int, ways: int) -> Self | None:
        return None if self.heads % ways or self.norm is not None else self.but(heads=self.heads // ways)

    def sketch(self, width: int) -> Sketch:
        H, M, E = self.heads, self.key_width, self.value_width
        read = fan(heads_cell("Q", H, M), heads_cell("K", H, M), heads_cell("V", H, E), Cell(f"gates {H}", "memory"))
        norm = None if self.norm is None else Cell("norm of all heads", "norm")
        mixed = chain(read, Cell(f"state {H} × ({M} × {E}), normalised", "memory"), norm)
        gate = chain(Cell(f"gate {number(H * E)}"), Cell("sigmoid", "pointwise"))
        inner = chain(fan(mixed, gate, join="×"), Cell(f"output {number(width)}"))
        return Sketch("mLSTM", biases(self.bias, len(PROJECTIONS)), inner)

    @property
    def traits(self) -> Traits:
        return Traits("mLSTM")

    def check(self, width: int) -> None:
        if self.norm is not None:
            self.norm.check(self.heads * self.value_width)

    def build(self, width: int, plan: Plan, name: str) -> MLSTMModule:
        from anyformer.parts.recurrence.mlstm_module import MLSTMModule

        return MLSTMModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, H, M, E = shape.batch, shape.rows, self.heads, self.key_width, self.value_width
        parts = Tally()
        for name, features in self.outputs.items():
            parts += matrix(name, width, features, rows, role="column", bias=name in self.bias)
        for name, start in GATES.items():
            weights = {f"{name}.weight": Weight((H, width), "column", "matrix"), f"{name}.bias": Weight((H,), "column", start)}
            parts += Tally(weights, {name: Product(rows, width, H, "column")})
        parts += matrix("output", H * E, width, rows, role="row", bias="output" in self.bias, fill="residual")
        inner = {"gate_activation": ACTIVATIONS["sigmoid"].cost(H * E, rows, gated=True)}
        if self.norm is not None:
            inner["norm"] = self.norm.cost(H * E, rows)
        scan = linear_flops(B, H, H, M, E + 1, shape.length, plan.chunk)
        return parts + scan + total(inner) + Tally(own_state=recurrent(B * H * M * (E + 1) * SUM_BYTES, shape, H))

    def watchable(self, width: int) -> Watchables:
        H, M, E = self.heads, self.key_width, self.value_width
        gate = value("BTH", "input gates, before their bound", H=H)
        about = {"query": "queries", "key": "keys", "value": "values", "gate": "output gates, before their sigmoid"}
        widths = {name: ("M", M) if name in ("query", "key") else ("E", E) for name in self.outputs}
        found = {name: sized(f"BTH{letter}", about[name], {"H": H, letter: size}) for name, (letter, size) in widths.items()}
        found |= {"input_gate": gate, "forget_gate": replace(gate, about="forget gates, before their bound")}
        found |= state_seen("BHnME", H=H, n=1, M=M, E=E + 1)
        return found | {"mixed": value("BTHE", "what each head read of its state", H=H, E=E)} | put_out_seen((H, E), width)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * H * M * (E + 1) sums, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        return RecurrentState.empty(batch, self.heads, 1, self.key_width, self.value_width + 1, device=device)
