"""The logarithm of a mel spectrum of amplitudes, as models that make speech write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.sound.log_mel import MelFeatures
from anyformer.sound.mel import mel_filters

if TYPE_CHECKING:
    from torch import Tensor


class SpeechMel(MelFeatures):
    """Bands of the amplitudes of a sound, x = log10(max(filters |STFT|, floor)), as SpeechT5 (arXiv 2110.07205) makes them.

    Frames of a Hann window centred on every `hop`-th sample, the sound mirrored at its ends.
    """

    kind: Literal["speech_mel"] = "speech_mel"
    window: Annotated[int, Field(ge=2)] = 1024
    hop: Annotated[int, Field(gt=0)] = 256
    low: Annotated[float, Field(ge=0)] = 80.0
    high: Annotated[float, Field(gt=0)] = 7600.0
    floor: Annotated[float, Field(gt=0)] = 1e-10
    """The least amplitude of a band."""

    @property
    def least(self) -> int:
        return self.window // 2 + 1

    def frames(self, samples: int) -> int:
        return 1 + samples // self.hop

    def _spectrum(self, sound_BY: Tensor, lengths_B: Tensor | None) -> Tensor:
        import torch

        from anyformer.sound import spectra

        window = torch.hann_window(self.window, device=sound_BY.device)
        heard = spectra.amplitudes(sound_BY, window, self.hop, self.points, "reflect")
        filters = mel_filters(self.bins, self.low, self.high, self.rate, self.points, "slaney")
        return spectra.filtered(filters, heard).clamp_min(self.floor).log10()
