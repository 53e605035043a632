"""Several residual streams: their base, and hyper-connections, which read and write them with learned weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from anyformer.describe import Registry
from anyformer.operations import Tally, Weight, matrix
from anyformer.parts.layers.step import Step
from anyformer.parts.norms.layer_norm import normalise
from anyformer.parts.sketch import Drawn, Sketch


class StreamEnds(nn.Module):
    """What stands at both ends of a stack's layers: one stream becomes N, and N become one."""

    def entering(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, N, D)."""
        raise NotImplementedError

    def leaving(self, x_BTND: Tensor) -> Tensor:
        """(B, T, N, D) -> (B, T, D)."""
        raise NotImplementedError


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
        """Why layers of so many steps each cannot have them, None if they can; `own`: whether each layer has weights of its
        own."""
        return None

    def build_ends(self, width: int) -> StreamEnds:
        """The module at both ends of the layers."""
        raise NotImplementedError

    def ends_cost(self, width: int, rows: int) -> tuple[Tally, Tally]:
        """The weights and the work before the layers and behind them."""
        return Tally(), Tally()


class StepStreams(Streams):
    """Streams that each step reads and writes: copies of the input at first, added up behind the last layer.

    Each step has a module of its own: streams (B, T, N, D) -> what its branches read (B, T, D), the mixed streams (B, T, N, D)
    and the weights with which the branches' output is added to them, (B, T, N, 1).
    """

    stability: ClassVar[str | None] = "hyper-connections"

    def problem(self, steps: Sequence[Step]) -> str | None:
        if any(step.shapes_residual or step.added_late for step in steps):
            changes = "norm_after, residual, residual_scale, gain and added"
            return f"streams weigh the residual themselves: take {changes} out of {{}}"
        return None

    def merged(self, x_BTND: Tensor) -> Tensor:
        """The stream behind the last layer, (B, T, D): the sum."""
        return x_BTND.sum(2)

    def build_ends(self, width: int) -> StreamEnds:
        return CopiesModule(self)

    def build(self, width: int, index: int) -> nn.Module:
        """The module of step `index` of the stack, counted from 0."""
        raise NotImplementedError

    def cost(self, width: int, rows: int, index: int) -> Tally:
        """The weights and the work of step `index`."""
        raise NotImplementedError


def places(streams: Streams | None, layers: Sequence[str]) -> list[tuple[str, int]]:
    """The variant of each layer, and its number, or 0 where nothing depends on it."""
    return [(variant, i if streams is not None and streams.placed else 0) for i, variant in enumerate(layers)]


class CopiesModule(StreamEnds):
    """N copies before the layers, merged behind them."""

    def __init__(self, streams: StepStreams) -> None:
        super().__init__()
        self.streams = streams

    def entering(self, x_BTD: Tensor) -> Tensor:
        return x_BTD[:, :, None].expand(-1, -1, self.streams.count, -1)

    def leaving(self, x_BTND: Tensor) -> Tensor:
        return self.streams.merged(x_BTND)


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

    def build(self, width: int, index: int) -> HyperConnectionsModule:
        return HyperConnectionsModule(self, width, index)

    def cost(self, width: int, rows: int, index: int) -> Tally:
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


class HyperConnectionsModule(nn.Module):
    """N residual streams. Stored weights are differences from a plain residual network, so that they start at zero."""

    def __init__(self, streams: HyperConnections, width: int, index: int) -> None:
        super().__init__()
        N = streams.count
        self.count, self.first = N, index % N
        self.read_weight = nn.Parameter(torch.empty(N))
        self.mix_weight = nn.Parameter(torch.empty(N, N))
        self.write_weight = nn.Parameter(torch.empty(N))
        self.dynamic = nn.Linear(width, N + 2, bias=False) if streams.dynamic else None
        self.strength = nn.Parameter(torch.empty(3)) if streams.dynamic else None

    def forward(self, x_BTND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The input of the branches (B, T, D), the mixed streams (B, T, N, D), the weights of the output (B, T, N, 1)."""
        N, dtype = self.count, x_BTND.dtype
        start = torch.zeros(N, device=x_BTND.device)
        start[self.first] = 1
        read = (self.read_weight + start).to(dtype)
        mix = (self.mix_weight + torch.eye(N, device=x_BTND.device)).to(dtype)
        write = (self.write_weight + 1).to(dtype)
        if self.dynamic is not None and self.strength is not None:
            shift = torch.tanh(self.dynamic(normalise(x_BTND.float(), 1e-6, centre=False).to(dtype)))
            s_read, s_mix, s_write = self.strength.to(dtype)
            read, write = read + s_read * shift[..., 0], write + s_write * shift[..., 1]
            mix = mix + s_mix * shift[..., 2:]
        read_BTD = (read[..., None] * x_BTND).sum(-2)
        mixed_BTND = (mix.mT[..., None] * x_BTND[..., None, :, :]).sum(-2)
        return read_BTD, mixed_BTND, write[..., None].expand(*x_BTND.shape[:3], 1)
