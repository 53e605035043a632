"""`Heard`: a sound as a person asks about it: how long, how loud, and a picture of its spectrum."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anyformer.sound.log_mel import LogMel

SILENT = 1e-6
"""The level of silence, of which there is no logarithm."""
_WINDOW, _HOP = 40, 100
"""A frame lasts a fortieth of a second, and so many begin in one."""


@dataclass(frozen=True, eq=False)
class Heard:
    """Samples (samples,) float32, usually from -1 to 1, and how many a second has."""

    samples: NDArray[np.float32]
    rate: int

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.samples) / self.rate

    @property
    def peak(self) -> float:
        """The greatest sample, whatever its sign."""
        return float(np.abs(self.samples).max(initial=0.0))

    @property
    def level(self) -> float:
        """20 log10 of the root of its mean square, in decibels of full scale; -120 of silence."""
        power = float(np.mean(np.square(self.samples, dtype=np.float64))) if len(self.samples) else 0.0
        return 20 * math.log10(max(SILENT, math.sqrt(power)))

    def picture(self, bands: int, columns: int) -> NDArray[np.float32]:
        """(bands, columns), from 0 to 1: how loud each band of its mel spectrum is, highest first, over time."""
        import torch

        mel = LogMel(
            rate=self.rate, window=max(2, self.rate // _WINDOW), hop=max(1, self.rate // _HOP), bins=bands, high=self.rate / 2
        )  # fmt: skip
        padded = np.pad(self.samples, (0, max(0, mel.least - len(self.samples))))
        spectrum = mel.spectrum(torch.from_numpy(padded)[None])[0].numpy()
        parts = np.array_split(spectrum, min(columns, spectrum.shape[1]), axis=1)
        found = np.stack([part.mean(1) for part in parts], 1)[::-1]
        low, high = found.min(), found.max()
        return np.asarray((found - low) / max(1e-6, float(high - low)), dtype=np.float32)
