"""Continuous inputs: vectors of any modality, and audio frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator

from anyformer.describe import Count, InputError
from anyformer.operations import Operation, Product, Tally, Weight, matrix, total
from anyformer.parts.derived import WidthFactor, of_width
from anyformer.parts.embedding.embedding import Input, readable
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Sketch, number

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from anyformer.parts.embedding.features_module import AudioFramesModule, FeaturesModule, GatedFramesModule


class Features(Input):
    """x_t = norm(W f_t + b), f (B, T, I): image embeddings, sensor readings, any vectors (W: (D, I)).

    In front of the tokens of a text it is the projector of vision language models (LLaVA, arXiv 2304.08485).
    """

    kind: Literal["features"] = "features"
    rank: ClassVar[int] = 3
    features: Count
    """I, numbers at every position."""
    bias: bool = True
    norm: Norm | None = None

    def sketch(self, width: int) -> Sketch:
        norm = [] if self.norm is None else [type(self.norm).__name__]
        return Sketch("Linear projection", (f"{number(self.features)} → {number(width)}", *norm))

    def check(self, name: str, given: Tensor, padding: Tensor | None) -> int:
        return vectors(name, given, self.features)

    def build(self, width: int) -> FeaturesModule:
        from anyformer.parts.embedding.features_module import FeaturesModule

        return FeaturesModule(self, width)

    def cost(self, width: int, batch: int, length: int) -> Tally:
        parts = matrix("projection", self.features, width, batch * length, role="column", bias=self.bias, constant=True)
        return parts + (total({"norm": self.norm.cost(width, batch * length)}) if self.norm else Tally())

    def example(self, batch: int, length: int, device: torch.device | str = "cpu", seed: int = 0) -> Tensor:
        import torch

        return torch.randn(batch, length, self.features, generator=torch.Generator().manual_seed(seed)).to(device)


class Frames(Input):
    """Audio frames (B, n T, I) -> (B, T, D). A rest of fewer than n gets its own position; padding must follow the frames."""

    rank: ClassVar[int] = 3
    sound: ClassVar[Literal["frames", "samples"] | None] = "frames"
    features: Count = 80
    """I, mel bands of a frame."""

    @property
    def frames(self) -> int:
        """n, frames that become one position."""
        raise NotImplementedError

    def check(self, name: str, given: Tensor, padding: Tensor | None) -> int:
        if padding is not None and readable(padding) and bool((padding[:, :-1] & ~padding[:, 1:]).any()):
            raise InputError(f"padding of audio frames must stand after them; in {name} a frame follows padding")
        return -(-vectors(name, given, self.features) // self.frames)

    def padding(self, padding: Tensor | None) -> Tensor | None:
        return None if padding is None else padding[:, :: self.frames]

    def example(self, batch: int, length: int, device: torch.device | str = "cpu", seed: int = 0) -> Tensor:
        import torch

        generator = torch.Generator().manual_seed(seed)
        return torch.randn(batch, self.frames * length, self.features, generator=generator).to(device)


class AudioFrames(Frames):
    """Two convolutions over time with GELU, the second of stride 2: frames (B, 2 T, I) -> (B, T, D).

    Whisper's input layers for log-mel frames (Radford et al. 2022, arXiv 2212.04356): kernels of 3, the first (D, I, 3), the
    second (D, D, 3), with biases.
    """

    kind: Literal["audio_frames"] = "audio_frames"

    @property
    def frames(self) -> int:
        return 2

    def sketch(self, width: int) -> Sketch:
        sizes = f"{self.features} → {number(width)} → {number(width)}"
        return Sketch("2 convolutions over time", (sizes, "kernels 3", "GELU", "every 2nd frame"))

    def build(self, width: int) -> AudioFramesModule:
        from anyformer.parts.embedding.features_module import AudioFramesModule

        return AudioFramesModule(self, width)

    def cost(self, width: int, batch: int, length: int) -> Tally:
        weights = {
            "first.weight": Weight((width, self.features, 3), "column", "matrix"),
            "first.bias": Weight((width,), "column", "zeros"),
            "second.weight": Weight((width, width, 3), "replicate", "matrix"),
            "second.bias": Weight((width,), "replicate", "zeros"),
        }
        # The second convolution has a stride of 2, so the first one computes twice as many frames.
        first = Product(2 * batch * length, 3 * self.features, width, "column", constant=True)
        return Tally(weights, {"first": first, "second": Product(batch * length, 3 * width, width, "replicate")})


class GatedFrames(Frames):
    """n convolutions over time of stride 2, each gated: frames (B, 2^n T, I) -> scale * (B, T, D).

        h = GLU(W * h + b), GLU([u; v]) = u * sigmoid(v)

    The input layers of fairseq's speech models (Synnaeve et al. 2019, arXiv 1911.08460; Wang et al. 2020, arXiv 2010.05171).
    """

    kind: Literal["gated_frames"] = "gated_frames"
    kernels: Annotated[tuple[int, ...], Field(min_length=1)] = (5, 5)
    """Frames that each convolution reads at once: odd numbers."""
    channels: Annotated[int, Field(ge=2, multiple_of=2)] = 1024
    """Outputs of every convolution but the last; the gate halves them."""
    scale: WidthFactor = 1.0
    """Factor of every position (fairseq: `sqrt_width`)."""

    @field_validator("kernels")
    @classmethod
    def _odd(cls, kernels: tuple[int, ...]) -> tuple[int, ...]:
        if any(kernel < 1 or kernel % 2 == 0 for kernel in kernels):
            raise ValueError(f"kernels must be odd, to have a middle, got {kernels}")
        return kernels

    @property
    def frames(self) -> int:
        return 1 << len(self.kernels)

    def sides(self, width: int) -> list[tuple[int, int]]:
        """(outputs, inputs) of each convolution."""
        outputs = [self.channels] * (len(self.kernels) - 1) + [2 * width]
        return list(zip(outputs, [self.features, *(half // 2 for half in outputs[:-1])], strict=True))

    def resolved(self, width: int) -> Self:
        return self.but(scale=of_width(self.scale, width))

    def build(self, width: int) -> GatedFramesModule:
        from anyformer.parts.embedding.features_module import GatedFramesModule

        return GatedFramesModule(self, width)

    def cost(self, width: int, batch: int, length: int) -> Tally:
        weights: dict[str, Weight] = {}
        work: dict[str, Operation] = {}
        for i, (kernel, (outputs, inputs)) in enumerate(zip(self.kernels, self.sides(width), strict=True)):
            weights[f"layers.{i}.weight"] = Weight((outputs, inputs, kernel), "replicate", "matrix")
            weights[f"layers.{i}.bias"] = Weight((outputs,), "replicate", "zeros")
            rows = batch * length * (self.frames >> i + 1)
            work[f"layers.{i}"] = Product(rows, inputs * kernel, outputs, "replicate", constant=i == 0)
        return Tally(weights, work)


def vectors(name: str, given: Tensor, features: int) -> int:
    """T of vectors (B, T, features); `InputError` for any other shape."""
    if given.dim() != 3 or given.shape[2] != features:
        raise InputError(f"{name} should be vectors (B, T, {features}), got {tuple(given.shape)}")
    return given.shape[1]
