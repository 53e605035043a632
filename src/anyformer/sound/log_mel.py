"""The logarithm of a mel spectrum, as Whisper hears it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from anyformer.describe import Count
from anyformer.sound.features import SoundFeatures
from anyformer.sound.mel import mel_filters

if TYPE_CHECKING:
    from torch import Tensor


class MelFeatures(SoundFeatures):
    """Bands of a spectrum that are equally spaced on a mel scale. The base of such features."""

    window: Annotated[int, Field(ge=2)] = 400
    """Samples of a frame."""
    hop: Count = 160
    """Samples from one frame to the next."""
    bins: Count = 80
    """I, bands."""
    low: Annotated[float, Field(ge=0)] = 0.0
    """Hertz where the first band begins."""
    high: Annotated[float, Field(gt=0)] = 8000.0
    """Hertz where the last band ends."""

    @model_validator(mode="after")
    def _bands_are_heard(self) -> MelFeatures:
        if not self.low < self.high <= self.rate / 2:
            raise ValueError(
                f"low = {self.low:g} and high = {self.high:g}: bands rise from low to high, which half of rate = {self.rate} "
                "is at most"
            )
        return self

    @property
    def inputs(self) -> int:
        return self.bins

    @property
    def points(self) -> int:
        """Points of the Fourier transform: the next power of two."""
        return 1 << (self.window - 1).bit_length()


class LogMel(MelFeatures):
    """Bands of the power of a sound, on a logarithmic scale (Whisper, Radford et al. 2022, arXiv 2212.04356).

    m = log10(max(filters |STFT|^2, floor)); x = (max(m, max(m) - decades) + shift) / scale. Frames of a Hann window centred
    on every `hop`-th sample, the sound mirrored at its ends; max(m) is that of the sound. Whisper puts zeros behind a sound
    until it lasts 30 s.
    """

    kind: Literal["log_mel"] = "log_mel"
    floor: Annotated[float, Field(gt=0)] = 1e-10
    """The least power of a band."""
    decades: Annotated[float, Field(gt=0)] = 8.0
    """How far below its loudest band a sound is heard, in powers of ten."""
    shift: float = 4.0
    """Added to the logarithms."""
    scale: Annotated[float, Field(gt=0)] = 4.0
    """What the sums are divided by."""

    @property
    def points(self) -> int:
        return self.window

    @property
    def least(self) -> int:
        return max(self.window // 2 + 1, self.hop)

    def frames(self, samples: int) -> int:
        return samples // self.hop

    def _spectrum(self, sound_BY: Tensor, lengths_B: Tensor | None) -> Tensor:
        import torch

        from anyformer.sound import spectra

        window = torch.hann_window(self.window, device=sound_BY.device)
        heard = spectra.amplitudes(sound_BY, window, self.hop, self.points, "reflect")[..., : self.frames(sound_BY.shape[1])]
        filters = mel_filters(self.bins, self.low, self.high, self.rate, self.points, "slaney")
        logs = spectra.filtered(filters, heard.square()).clamp_min(self.floor).log10()
        loudest = logs.amax((1, 2), keepdim=True)
        return (torch.maximum(logs, loudest - self.decades) + self.shift) / self.scale
