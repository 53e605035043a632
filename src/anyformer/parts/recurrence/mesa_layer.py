"""The Mesa layer: every token reads the least-squares map of all keys before it to their values."""

from __future__ import annotations

from math import expm1, log
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field

from anyformer.describe import Count, Positive
from anyformer.operations import Contraction, Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.operations.elementwise import activated
from anyformer.operations.work import SUM_BYTES
from anyformer.parts.attention.heads_sketch import gated, heads_cell
from anyformer.parts.attention.named_values import put_out_seen, state_seen
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.pointwise.gate import Gate
from anyformer.parts.recurrence.convolved_projections import projections, recent_elements, recent_inputs
from anyformer.parts.recurrence.recurrent_work import cut, even, recurrent
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, chain, fan, number
from anyformer.parts.sublayer import Sublayer, Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import RecurrentState
    from anyformer.parts.recurrence.mesa_layer_module import MesaLayerModule


class MesaLayer(Sublayer):
    """o_t = (C_t + diag(ridge))^-1 q_t S_t, then gate(norm(o)) W_o: a ridge regression of values on keys, solved at each token.

        C_t = f_t C_{t-1} + beta_t k_t k_t^T: (M, M),   S_t = f_t S_{t-1} + beta_t k_t v_t^T: (M, E), in fp32

    q, k: (B, T, H, M), short convolutions of x W, divided by their lengths; v = x W: (B, T, H, E); f, beta = sigmoid(x W + b):
    (B, T, H); ridge = softplus(learned) + least: (H, M). Where a delta rule takes one step towards the map that loses least on
    the tokens so far, this is that map (MesaNet, von Oswald et al. 2025, arXiv 2506.05233; f is its gamma, ridge its Lambda,
    C and S its H_kk and H_kv). The system is solved by conjugate gradients in so many `iterations`; its gradient is another
    such solution, so that training saves no iteration, and is exact as far as the solution is.
    """

    kind: Literal["mesa_layer"] = "mesa_layer"
    heads: Count
    """H."""
    key_width: Count
    """M, features of a query or key."""
    value_width: Count | None = None
    """E, features of a value; M by default."""
    convolution: ShortConvolution | None = None
    """Convolution of queries and keys, each with weights of its own (the paper: kernel 4, silu)."""
    iterations: Count = 30
    """Of conjugate gradients. M of them are exact but for rounding; fewer do where keys are few or the ridge is large."""
    least: Annotated[float, Field(gt=0, lt=1)] = 0.25
    """The least that is added to the diagonal; the sum begins at 1."""
    length_eps: Positive = 1e-6
    """Added to the squared lengths that queries and keys are divided by."""
    norm: Norm | None = None
    """Norm of each head's output, before the gate."""
    gate: Gate | None = None

    @property
    def tp_divisors(self) -> tuple[int, ...]:
        return (self.heads,)

    @property
    def columns(self) -> int:
        """E."""
        return self.key_width if self.value_width is None else self.value_width

    @property
    def widths(self) -> dict[str, int]:
        """Features, over all heads, of each projection."""
        return {**self.convolved, "value": self.heads * self.columns}

    @property
    def convolved(self) -> dict[str, int]:
        """Those that may be convolved."""
        return dict.fromkeys(("query", "key"), self.heads * self.key_width)

    def narrowed(self, width: int, ways: int) -> Self | None:
        return None if self.heads % ways else self.but(heads=self.heads // ways)

    def sketch(self, width: int) -> Sketch:
        H, M, E = self.heads, self.key_width, self.columns
        convolved = None if self.convolution is None else Cell(self.convolution.words, "mix")
        keys = chain(fan(heads_cell("Q", H, M), heads_cell("K", H, M)), convolved)
        read = fan(keys, heads_cell("V", H, E), Cell("β · f per head", "memory"))
        state = Cell(f"state {H} × ({M} × {M}), ({M} × {E})", "memory")
        solved = Cell(f"least squares, {self.iterations} conjugate gradients", "mix")
        norm = None if self.norm is None else Cell("norm of each head", "norm")
        mixed = gated(chain(read, state, solved, norm), self.gate)
        return Sketch("Mesa layer", flow=chain(mixed, Cell(f"output {number(width)}")))

    @property
    def traits(self) -> Traits:
        return Traits("Mesa")

    def resolved(self, width: int) -> Self:
        return self.but(value_width=self.columns)

    def build(self, width: int, plan: Plan, name: str) -> MesaLayerModule:
        from anyformer.parts.recurrence.mesa_layer_module import MesaLayerModule

        return MesaLayerModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        B, rows, H, M, E = shape.batch, shape.rows, self.heads, self.key_width, self.columns
        parts = projections(self.convolved, self.convolution, width, shape)
        parts += matrix("value", width, H * E, rows, role="column")
        parts += matrix("beta", width, H, rows, role="column", bias=True)
        parts += matrix("forget", width, H, rows, role="column", bias=True)
        # softplus(r) + least = 1
        ridge = Weight((H * M,), "column", log(expm1(1 - self.least)))
        parts += Tally({"ridge": ridge}, {"ridge_activation": activated(H * M)})
        parts += matrix("output", H * E, width, rows, role="row", fill="residual")
        inner = {f"{name}_activation": ACTIVATIONS["sigmoid"].cost(H, rows) for name in ("beta", "forget")}
        if self.norm is not None:
            inner["norm"] = self.norm.cost(E, rows * H)
        if self.gate is not None:
            inner["gate"] = self.gate.work(width, H, E, rows)
        recent = recent_elements(self.convolved, self.convolution, B) * plan.activation_bytes
        state = recurrent(B * H * M * (M + E) * SUM_BYTES + recent, shape, H)
        return parts + self._products(B, shape.length, plan.chunk) + total(inner) + Tally(own_state=state)

    def _products(self, batch: int, length: int, chunk: int) -> Tally:
        """FLOPs of `mesa_recurrence` from an empty state; the gradient of a solution is another and two products' worth."""
        H, M, E, n = self.heads, self.key_width, self.columns, self.iterations
        if length == 1:
            once = 2 * batch * H * M * M
            solve = Contraction(n * once, no_gradient=(n - 2) * once)
            return even(read=2 * batch * H * M * E) + Tally(own_work={"solve": solve})
        size, chunks = cut(length, chunk, channels=False)
        rows, alone = batch * H * chunks * size, chunks == 1
        write, read, through = 2 * rows * M * (M + E), 2 * rows * M * E, 2 * rows * M * M
        once = through + 4 * rows * size * M
        return even(scores=2 * rows * size * M, mix=2 * rows * size * E) + Tally(
            own_work={
                "write": Contraction(write, no_gradient=2 * write if alone else 0),
                "read": Contraction(read, no_gradient=read if alone else 0),
                "solve": Contraction(n * once, no_gradient=(n - 2) * once + (through if alone else 0)),
            }
        )

    def watchable(self, width: int) -> Watchables:
        H, M, E = self.heads, self.key_width, self.columns
        found = {"query": value("BTHM", "queries", H=H, M=M), "key": value("BTHM", "keys", H=H, M=M)}
        found["value"] = value("BTHE", "values", H=H, E=E)
        found["beta"] = value("BTH", "how much a token counts", H=H)
        found["log_decay"] = value("BTHn", "log-decays", H=H, n=1)
        found |= state_seen("BHnME", H=H, n=1, M=M, E=M + E)
        return found | {"mixed": value("BTHE", "what each head read of its state", H=H, E=E)} | put_out_seen((H, E), width)

    def state(
        self, width: int, batch: int, capacity: int, source: int, dtype: torch.dtype, device: torch.device
    ) -> RecurrentState:
        """B * H * M * (M + E) sums, C beside S, and the convolutions' latest inputs, for any capacity."""
        from anyformer.parts.call.recurrent_state import RecurrentState

        recent = recent_inputs(self.convolved, self.convolution, batch, dtype, device)
        shape = (batch, self.heads, 1, self.key_width, self.key_width + self.columns)
        return RecurrentState.empty(*shape, device=device, convolutions=recent)
