"""The samples of a sound themselves, as wav2vec 2.0 hears them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from anyformer.sound.features import SoundFeatures

if TYPE_CHECKING:
    from torch import Tensor


class Waveform(SoundFeatures):
    """The samples with mean 0 and variance 1: (s - mean) / sqrt(variance + 1e-7) over a sound's own samples, zeros behind them
    (wav2vec 2.0, Baevski et al. 2020, arXiv 2006.11477)."""

    kind: Literal["waveform"] = "waveform"
    normalised: bool = True
    """False: the samples as they are."""

    @property
    def inputs(self) -> int:
        return 1

    @property
    def least(self) -> int:
        return 1

    def frames(self, samples: int) -> int:
        return samples

    def _spectrum(self, sound_BY: Tensor, lengths_B: Tensor | None) -> Tensor:
        from anyformer.sound import spectra

        x_BIT = sound_BY[:, None]
        real = spectra.known(self.frames, lengths_B, sound_BY.shape[1], x_BIT)
        if not self.normalised:
            return x_BIT * real
        count = real.sum(2, keepdim=True)
        mean = (x_BIT * real).sum(2, keepdim=True) / count
        variance = ((x_BIT - mean).square() * real).sum(2, keepdim=True) / count
        return (x_BIT - mean) / (variance + 1e-7).sqrt() * real
