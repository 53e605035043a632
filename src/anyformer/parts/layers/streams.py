"""Several residual streams: their base, and hyper-connections, which read and write them with learned weights."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from anyformer.describe import Registry
from anyformer.operations import Tally, Weight, matrix
from anyformer.parts.layers.step import Step
from anyformer.parts.sketch import Drawn, Sketch
from anyformer.parts.sublayer import Inputs

if TYPE_CHECKING:
    from torch import Tensor, nn

    from anyformer.parts.layers.streams_module import HyperConnectionsModule, StreamEnds


class Streams(Drawn):
    """N residual streams, (B, T, N, D), in place of one, which is what enters the layers and what leaves them.

    Either each step of a layer reads and writes all of them (`StepStreams`), or a layer computes one of them, and what becomes
    of the others follows (`AlternatingUpdates`).
    """

    kinds: ClassVar[Registry] = Registry()
    stability: ClassVar[str | None] = None
    """Its name as a technique for stable training."""
    placed: ClassVar[bool] = False
    """Whether what a layer has of them depends on its place among the layers."""
    kind: str
    count: Annotated[int, Field(ge=2)] = 4
    """N."""

    @property
    def lanes(self) -> int:
        """How many of them a picture shows."""
        return self.count

    def problem(self, steps: Sequence[Step]) -> str | None:
        """Why a layer of these steps cannot have the streams, with {} for its name; None if it can."""
        raise NotImplementedError

    def problem_of_layers(self, steps: Sequence[int], *, own: bool) -> str | None:
        """Why layers of so many steps each cannot have them, None if they can; `own`: whether every layer has weights of its
        own."""
        return None

    def fitting(self, layers: Sequence[str], shared: Collection[str], steps: int) -> tuple[Streams, Sequence[str]]:
        """These streams of other layers, of so many steps each, some of which share weights; and the order that they need."""
        return self, layers

    def build_ends(self, width: int) -> StreamEnds:
        """The module at both ends of the layers."""
        raise NotImplementedError

    def ends_cost(self, width: int, rows: int) -> tuple[Tally, Tally]:
        """The weights and the work before the layers and behind them."""
        return Tally(), Tally()


class StepStreams(Streams):
    """Streams that a step reads and writes: copies of the input at first, added up behind the last layer.

    Each step has a module of its own: streams (B, T, N, D) -> what its branches read (B, T, D), the mixed streams (B, T, N, D)
    and the weights with which the branches' output is added to them, (B, T, N, 1).
    """

    stability: ClassVar[str | None] = "hyper-connections"
    deep: ClassVar[bool] = False
    """Whether keys and values may read of them what queries do not (`Sublayer.inputs_of_depth`)."""

    def problem(self, steps: Sequence[Step]) -> str | None:
        if any(step.shapes_residual or step.added_late for step in steps):
            changes = "norm_after, residual, residual_scale, gain, interpolation and added"
            return f"streams weigh the residual themselves: take {changes} out of {{}}"
        if not self.deep and any(step.inputs_of_depth for step in steps):
            return f"{self.kind} give queries, keys and values one input: take side_inputs out of {{}}"
        return None

    def merged(self, x_BTND: Tensor) -> Tensor:
        """The stream behind the last layer, (B, T, D): the sum."""
        return x_BTND.sum(2)

    def build_ends(self, width: int) -> StreamEnds:
        from anyformer.parts.layers.streams_module import CopiesModule

        return CopiesModule(self)

    def build(self, width: int, index: int, inputs: Inputs = None) -> nn.Module:
        """The module of step `index` of the stack, counted from 0."""
        raise NotImplementedError

    def cost(self, width: int, rows: int, index: int, inputs: Inputs = None) -> Tally:
        """The weights and the work of step `index`."""
        raise NotImplementedError


def places(streams: Streams | None, layers: Sequence[str]) -> list[tuple[str, int]]:
    """The variant of each layer, and its number, or 0 where nothing depends on it."""
    return [(variant, i if streams is not None and streams.placed else 0) for i, variant in enumerate(layers)]


class HyperConnections(StepStreams):
    """N residual streams instead of one (Zhu et al. 2024, arXiv 2409.19606).

    A step reads h = sum_n m_n x_n and leaves x_n = sum_k r_kn x_k + w_n f(h), f all its branches. m, r, w start as a plain
    residual network in N copies. `dynamic` adds s * tanh(x_n / rms(x_n) . W) to each, so that they depend on the token.
    The streams start as copies of the input and are summed at the end. The paper's A_m, A_r, B are m, r, w.
    """

    kind: Literal["hyper_connections"] = "hyper_connections"
    dynamic: bool = True

    def sketch(self, width: int) -> Sketch:
        weights = "weights of each token" if self.dynamic else "learned weights"
        return Sketch("Hyper-connections", (f"{self.count} residual streams, read and written with {weights}",))

    def build(self, width: int, index: int, inputs: Inputs = None) -> HyperConnectionsModule:
        from anyformer.parts.layers.streams_module import HyperConnectionsModule

        return HyperConnectionsModule(self, width, index)

    def cost(self, width: int, rows: int, index: int, inputs: Inputs = None) -> Tally:
        N = self.count
        parts = Tally(
            {
                "read_weight": Weight((N,), "replicate", "zeros"),
                "mix_weight": Weight((N, N), "replicate", "zeros"),
                "write_weight": Weight((N,), "replicate", "zeros"),
            }
        )
        if self.dynamic:
            parts += matrix("dynamic", width, N + 2, rows * N, role="replicate")
            parts += Tally({"strength": Weight((3,), "replicate", 0.01)})
        return parts
