"""The logarithm of a mel spectrum by Kaldi's rules, as SeamlessM4T, W2v-BERT and AST hear it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from anyformer.describe import Count, Value
from anyformer.sound.log_mel import MelFeatures
from anyformer.sound.mel import mel_filters

if TYPE_CHECKING:
    from torch import Tensor


class FixedScale(Value):
    """Features by the statistics of a data set: (x - mean) / (2 deviation), for standard deviation one half."""

    mean: float = -4.2677393
    """AudioSet's, as in AST."""
    deviation: Annotated[float, Field(gt=0)] = 4.5689974
    """AudioSet's standard deviation."""


class KaldiMel(MelFeatures):
    """Filter banks by Kaldi's rules (Povey et al. 2011), as in SeamlessM4T (arXiv 2308.11596) and AST (arXiv 2104.01778).

    Frames begin at every `hop`-th sample and lie within the sound. Of each, times `gain`, the mean is subtracted, then 0.97 of
    the sample before; m = ln(max(filters |FFT(window)|^2, 2^-23)). x: m with mean 0 and variance 1 per band over the sound's
    own frames, or by `fixed`. `stack` frames are joined to one, zeros behind the last.
    """

    kind: Literal["kaldi_mel"] = "kaldi_mel"
    low: Annotated[float, Field(ge=0)] = 20.0
    shape: Literal["povey", "hann"] = "povey"
    """The window: Hann's, or its power of 0.85."""
    gain: Annotated[float, Field(gt=0)] = 2.0**15
    """What samples are multiplied by; AST's 1."""
    stack: Count = 1
    """Frames that are joined to one; SeamlessM4T's 2."""
    fixed: FixedScale | None = None
    """The statistics of a data set, instead of those of the sound."""
    length: Count | None = None
    """Frames that every sound has: longer ones are cut, zeros follow shorter ones before they are scaled; AST's 1,024."""

    @property
    def inputs(self) -> int:
        return self.bins * self.stack

    @property
    def least(self) -> int:
        return self.window if self.fixed is not None else self.window + self.hop

    def frames(self, samples: int) -> int:
        found = self._single(samples) if self.length is None else self.length
        return -(-found // self.stack)

    def _single(self, samples: int) -> int:
        """Frames within a sound, before they are joined."""
        return max(0, 1 + (samples - self.window) // self.hop)

    def _spectrum(self, sound_BY: Tensor, lengths_B: Tensor | None) -> Tensor:
        import torch.nn.functional as F

        from anyformer.sound import spectra

        logs = self._logs(sound_BY)
        real = spectra.known(self._single, lengths_B, logs.shape[2], logs)
        if self.length is not None:
            logs, real = (F.pad(each[..., : self.length], (0, max(0, self.length - each.shape[2]))) for each in (logs, real))
        if self.fixed is None:
            found = spectra.standardised(logs, real, 1e-7, 0.0)
        else:
            found = (logs * real - self.fixed.mean) / (2 * self.fixed.deviation)
        found = F.pad(found, (0, -found.shape[2] % self.stack))
        return found.transpose(1, 2).reshape(len(found), -1, self.inputs).transpose(1, 2)

    def _logs(self, sound_BY: Tensor) -> Tensor:
        import torch

        from anyformer.sound import spectra

        frames = sound_BY.unfold(1, self.window, self.hop) * self.gain
        frames = frames - frames.mean(2, keepdim=True)
        frames = frames - 0.97 * torch.cat([frames[..., :1], frames[..., :-1]], 2)
        window = spectra.hann(self.window, 0.85 if self.shape == "povey" else 1.0).to(frames)
        power = spectra.windowed(frames, window, self.points).square()
        filters = mel_filters(self.bins, self.low, self.high, self.rate, self.points, "kaldi")
        return spectra.filtered(filters, power).clamp_min(2.0**-23).log()
