"""Scales of pitch as people hear it, and triangular filters that are equally spaced on them."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Scale = Literal["slaney", "kaldi"]
_BREAK, _BREAK_MEL = 1000.0, 15.0
_STEP = np.log(6.4) / 27


def mel_of(hertz: Numbers, scale: Scale) -> Numbers:
    """Frequencies on a mel scale.

    `slaney` (Slaney 1998, Auditory Toolbox): 3 f / 200 below 1 kHz, logarithmic above with 27 mels per factor of 6.4; `kaldi`
    (O'Shaughnessy 1987): 1127 ln(1 + f / 700).
    """
    if scale == "kaldi":
        return np.asarray(1127.0 * np.log1p(hertz / 700.0))
    above = _BREAK_MEL + np.log(np.maximum(hertz, _BREAK) / _BREAK) / _STEP
    return np.where(hertz < _BREAK, 3 * hertz / 200, above)


def hertz_of(mels: Numbers, scale: Scale) -> Numbers:
    """The inverse of `mel_of`."""
    if scale == "kaldi":
        return np.asarray(700.0 * np.expm1(mels / 1127.0))
    return np.where(mels < _BREAK_MEL, 200 * mels / 3, _BREAK * np.exp(_STEP * (np.maximum(mels, _BREAK_MEL) - _BREAK_MEL)))


@lru_cache(maxsize=32)
def mel_filters(bins: int, low: float, high: float, rate: int, points: int, scale: Scale) -> Numbers:
    """Triangles (bins, points // 2 + 1) over the frequencies of a Fourier transform of so many `points`.

    Their corners are equally spaced on the scale from `low` to `high` hertz. `slaney`: straight over frequency, each of area
    one; `kaldi`: straight over mels, each of height one.
    """
    ends = mel_of(np.array([low, high]), scale)
    corners = np.linspace(ends[0], ends[1], bins + 2)
    places: Numbers = np.arange(points // 2 + 1, dtype=np.float64) * (rate / points)
    if scale == "kaldi":
        places = mel_of(places, scale)
    else:
        corners = hertz_of(corners, scale)
    left, middle, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    triangles = np.maximum(0, np.minimum((places - left) / (middle - left), (right - places) / (right - middle)))
    if scale == "slaney":
        triangles *= 2 / (right - left)
    return np.asarray(triangles)
