"""The Mesa layer: every token reads the least-squares map of all keys before it to their values."""

from __future__ import annotations

from math import expm1, log
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field

from anyformer.describe import Count
from anyformer.operations import Contraction, Shape, Tally, Watchables, Weight, matrix, total, value
from anyformer.operations.elementwise import activated
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.recurrence.convolved_heads import ConvolvedHeads
from anyformer.parts.recurrence.head_outputs import heads_read
from anyformer.parts.recurrence.recurrent_work import cut, even
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell, Sketch, chain, fan
from anyformer.parts.sublayer import Traits
from anyformer.plan import Plan

if TYPE_CHECKING:
    from anyformer.parts.recurrence.mesa_layer_module import MesaLayerModule


class MesaLayer(ConvolvedHeads):
    """o_t = (C_t + diag(ridge))^-1 q_t S_t, then gate(norm(o)) W_o: a ridge regression of values on keys, solved at each token.

        C_t = f_t C_{t-1} + beta_t k_t k_t^T: (M, M),   S_t = f_t S_{t-1} + beta_t k_t v_t^T: (M, E), in fp32

    q, k: (B, T, H, M), short convolutions of x W, divided by their lengths; v = x W: (B, T, H, E); f, beta = sigmoid(x W + b):
    (B, T, H); ridge = softplus(learned) + least: (H, M). Where a delta rule takes one step towards the map that loses least on
    the tokens so far, this is that map (MesaNet, von Oswald et al. 2025, arXiv 2506.05233; f is its gamma, ridge its Lambda,
    C and S its H_kk and H_kv). The system is solved by conjugate gradients in so many `iterations`; its gradient is another
    such solution, so that training saves no iteration, and is exact as far as the solution is.
    """

    kind: Literal["mesa_layer"] = "mesa_layer"
    convolution: ShortConvolution | None = None
    """Convolution of queries and keys, each with weights of its own (the paper: kernel 4, silu)."""
    iterations: Count = 30
    """Of conjugate gradients. M of them are exact but for rounding; fewer do where keys are few or the ridge is large."""
    least: Annotated[float, Field(gt=0, lt=1)] = 0.25
    """The least that is added to the diagonal; the sum begins at 1."""

    @property
    def held(self) -> int:
        """C beside S."""
        return self.key_width + self.columns

    @property
    def convolved(self) -> dict[str, int]:
        return {name: features for name, features in self.widths.items() if name != "value"}

    def narrowed(self, width: int, ways: int) -> Self | None:
        return None if self.heads % ways else self.but(heads=self.heads // ways)

    def sketch(self, width: int) -> Sketch:
        H, M = self.heads, self.key_width
        state = Cell(f"state {H} × ({M} × {M}), ({M} × {self.columns})", "memory")
        solved = Cell(f"least squares, {self.iterations} conjugate gradients", "mix")
        read = fan(*self.sides(), Cell("β · f per head", "memory"))
        return heads_read("Mesa layer", chain(read, state, solved), self.norm, self.gate, width)

    @property
    def traits(self) -> Traits:
        return Traits("Mesa")

    def build(self, width: int, plan: Plan, name: str) -> MesaLayerModule:
        from anyformer.parts.recurrence.mesa_layer_module import MesaLayerModule

        return MesaLayerModule(self, width, plan)

    def cost(self, width: int, shape: Shape, plan: Plan) -> Tally:
        rows, H, ridges = shape.rows, self.heads, self.heads * self.key_width
        parts, inner = self.around(width, shape, plan), {}
        for name in ("beta", "forget"):
            parts += matrix(name, width, H, rows, role="column", bias=True)
            inner[f"{name}_activation"] = ACTIVATIONS["sigmoid"].cost(H, rows)
        # softplus(r) + least = 1
        ridge = Weight((ridges,), "column", log(expm1(1 - self.least)))
        parts += Tally({"ridge": ridge}, {"ridge_activation": activated(ridges)})
        return parts + total(inner) + self._products(shape.batch, shape.length, plan.chunk)

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
        beta = value("BTH", "how much a token counts", H=self.heads)
        return {"beta": beta, "log_decay": value("BTHn", "log-decays", H=self.heads, n=1), **super().watchable(width)}
