"""Sound as it is recorded: convolutions over the samples of a wave."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from anyformer.describe import Choice, Count, InputError, Positive, Value
from anyformer.operations import Elementwise, Product, Tally, Weight, total
from anyformer.parts.embedding.embedding import Input, readable
from anyformer.parts.norms.norm import Norm
from anyformer.parts.pointwise.activation import ACTIVATIONS
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from anyformer.parts.embedding.waves_module import WavesModule


class RowNorm(Value):
    """y = (x - mean) / sqrt(var + eps) * gain + bias, over all positions of a row and the channels of a group.

    GroupNorm (Wu & He 2018, arXiv 1803.08494) over time, without padding: a row in a batch is as the row alone.
    """

    groups: Count | None = None
    """Groups of channels; None: each channel is one."""
    eps: Positive = 1e-5

    def cost(self, width: int, batch: int, length: int) -> Tally:
        """Its weights, and its work on B rows of T positions of `width` channels: 7 operations on a number, 2 on a group."""
        numbers, groups = batch * length * width, batch * (self.groups or width) * bool(length)
        weights = {"weight": Weight((width,), "replicate", "ones"), "bias": Weight((width,), "replicate", "zeros")}
        count = 7 * numbers + 2 * groups
        return Tally(weights, {"": Elementwise("norms", count, count, 2 * numbers)})


class WaveLayer(Value):
    """h_t = act(norm(sum over j < n of W_j h_(s t + j) + b)), n = `kernel`, s = `stride`: nothing beyond the row is read."""

    kernel: Count
    stride: Count = 1
    channels: Count | None = None
    """Outputs; None: the width of the embedding, which the last layer must have."""
    bias: bool = False
    norm: Norm | None = None
    """Over the channels of one position."""
    row_norm: RowNorm | None = None
    """Over the positions of a row, after `norm`."""
    row_norm_at: Literal["before_activation", "after_activation"] = "before_activation"
    activation: Annotated[str, Choice(lambda: ACTIVATIONS)] = "gelu"

    def frames(self, given: int) -> int:
        """The number of outputs of a row of `given` inputs; 0 of a row that is shorter than the kernel."""
        return max((given - self.kernel) // self.stride + 1, 0)

    def reads(self, frames: int) -> int:
        """The fewest inputs that give so many outputs."""
        return (frames - 1) * self.stride + self.kernel if frames else 0

    def cost(self, inputs: int, outputs: int, batch: int, length: int, *, first: bool) -> Tally:
        """Its weights, and its work for T = `length` outputs of B rows; `first`: its inputs are samples."""
        vectors = batch * length
        weights = {"weight": Weight((outputs, inputs, self.kernel), "replicate", "matrix", linear=False)}
        weights |= {"bias": Weight((outputs,), "replicate", "zeros")} if self.bias else {}
        product = Product(vectors, inputs * self.kernel, outputs, "replicate", constant=first)
        inner = {"activation": ACTIVATIONS[self.activation].cost(outputs, vectors)}
        inner |= {"norm": self.norm.cost(outputs, vectors)} if self.norm else {}
        inner |= {"row_norm": self.row_norm.cost(outputs, batch, length)} if self.row_norm else {}
        return Tally(weights, {"": product}) + total(inner)


class Waves(Input):
    """Samples of a wave (B, samples), one channel -> (B, T, D): convolutions over time, and a norm of what they give.

    wav2vec 2.0 (Baevski et al. 2020, arXiv 2006.11477, section 2): 7 layers, a position every 320 samples. Padding must follow
    the samples. What is declared of T positions is that of the shortest wave that becomes so many.
    """

    kind: Literal["waves"] = "waves"
    rank: ClassVar[int] = 2
    sound: ClassVar[Literal["frames", "samples"] | None] = "samples"
    layers: Annotated[tuple[WaveLayer, ...], Field(min_length=1)]
    norm: Norm | None = None

    @model_validator(mode="after")
    def _fits(self) -> Waves:
        if self.layers[-1].channels is not None:
            raise ValueError(
                f"the last layer gives the width of the embedding, and says channels = {self.layers[-1].channels}: leave it out"
            )
        for layer in self.layers[:-1]:
            groups = layer.row_norm and layer.row_norm.groups
            if groups and layer.channels and layer.channels % groups:
                raise ValueError(
                    f"row_norm.groups must divide the channels, got groups = {groups}, channels = {layer.channels}"
                )
        return self

    @property
    def samples_per_position(self) -> int:
        """Samples from one position to the next."""
        step = 1
        for layer in self.layers:
            step *= layer.stride
        return step

    def frames(self, samples: int) -> int:
        """T of a row of so many samples."""
        for layer in self.layers:
            samples = layer.frames(samples)
        return samples

    def lengths(self, length: int) -> list[int]:
        """The positions of the wave and behind each layer of the shortest row that becomes T = `length` positions."""
        found = [length]
        for layer in reversed(self.layers):
            found.append(layer.reads(found[-1]))
        return found[::-1]

    def sides(self, width: int) -> list[tuple[int, int]]:
        """(outputs, inputs) of each convolution."""
        channels = [1, *(layer.channels or width for layer in self.layers)]
        return [(outputs, inputs) for inputs, outputs in pairwise(channels)]

    def sketch(self, width: int) -> Sketch:
        norm = [] if self.norm is None else [type(self.norm).__name__]
        every = f"a position every {self.samples_per_position:,} samples"
        kernels = ", ".join(str(layer.kernel) for layer in self.layers)
        return Sketch(
            f"{len(self.layers)} convolutions over samples", (f"kernels {kernels}", every, f"→ {number(width)}", *norm)
        )

    def check(self, name: str, given: Tensor, padding: Tensor | None) -> int:
        if given.dim() != 2 or not given.is_floating_point():
            raise InputError(f"{name} should be samples (B, samples), real numbers, got {tuple(given.shape)} of {given.dtype}")
        samples = given.shape[1]
        if padding is not None and readable(padding):
            if bool((padding[:, :-1] & ~padding[:, 1:]).any()):
                raise InputError(f"padding of waves must stand after them; in {name} a sample follows padding")
            samples = int((~padding).sum(1).min()) if len(padding) else samples
        shortest = self.lengths(1)[0]
        if samples < shortest:
            raise InputError(f"a row of {name} has {samples} samples, and {shortest} become one position: give a longer wave")
        return self.frames(given.shape[1])

    def padding(self, padding: Tensor | None) -> Tensor | None:
        if padding is None:
            return None
        from anyformer.parts.embedding.waves_module import beyond

        lengths = (~padding).sum(1)
        for layer in self.layers:
            lengths = (lengths - layer.kernel).div(layer.stride, rounding_mode="floor") + 1
        return beyond(lengths, self.frames(padding.shape[1]))

    def build(self, width: int) -> WavesModule:
        from anyformer.parts.embedding.waves_module import WavesModule

        return WavesModule(self, width)

    def cost(self, width: int, batch: int, length: int) -> Tally:
        rows = self.lengths(length)[1:]
        parts = {
            f"layers.{i}": layer.cost(inputs, outputs, batch, count, first=i == 0)
            for i, (layer, (outputs, inputs), count) in enumerate(zip(self.layers, self.sides(width), rows, strict=True))
        }
        return total(parts) + (total({"norm": self.norm.cost(width, batch * length)}) if self.norm else Tally())

    def example(self, batch: int, length: int, device: torch.device | str = "cpu", seed: int = 0) -> Tensor:
        import torch

        samples = self.lengths(length)[0]
        return torch.randn(batch, samples, generator=torch.Generator().manual_seed(seed)).to(device)
