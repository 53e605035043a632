"""The logarithm of a mel spectrum, each band normalised over the sound, as NVIDIA's models of speech hear it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.sound.log_mel import MelFeatures
from anyformer.sound.mel import mel_filters

if TYPE_CHECKING:
    from torch import Tensor


class NormalisedMel(MelFeatures):
    """Bands with mean 0 and variance 1 over a sound (Parakeet and FastConformer, Rekesh et al. 2023, arXiv 2305.05084).

    s[n] - preemphasis s[n - 1] is heard; m = ln(filters |STFT|^2 + guard); x = (m - mean) / (deviation + 1e-5), mean and
    deviation (of n - 1) of each band over the sound's own frames. Zeros lie beyond the sound, and behind its frames.
    """

    kind: Literal["normalised_mel"] = "normalised_mel"
    preemphasis: Annotated[float, Field(ge=0, lt=1)] = 0.97
    """The share of the sample before that is subtracted from every sample."""
    guard: Annotated[float, Field(gt=0)] = 2.0**-24
    """Added to the power of a band."""

    @property
    def least(self) -> int:
        return 2 * self.hop

    def frames(self, samples: int) -> int:
        return samples // self.hop

    def _spectrum(self, sound_BY: Tensor, lengths_B: Tensor | None) -> Tensor:
        import torch

        from anyformer.sound import spectra

        heard = torch.cat([sound_BY[:, :1], sound_BY[:, 1:] - self.preemphasis * sound_BY[:, :-1]], 1)
        if lengths_B is not None:
            places = torch.arange(sound_BY.shape[1], device=sound_BY.device)
            heard = heard * (places < lengths_B.to(sound_BY.device)[:, None])
        window = spectra.hann(self.window).to(heard)
        length = self.frames(sound_BY.shape[1])
        power = spectra.amplitudes(heard, window, self.hop, self.points, "constant")[..., :length].square()
        filters = mel_filters(self.bins, self.low, self.high, self.rate, self.points, "slaney")
        logs = (spectra.filtered(filters, power) + self.guard).log()
        return spectra.standardised(logs, spectra.known(self.frames, lengths_B, length, logs), 0.0, 1e-5)
