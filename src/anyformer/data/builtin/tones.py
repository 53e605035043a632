"""Tones of eight classes, from sine and square waves to rising ones and noise; of any pitch, loudness and length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyformer.data.builtin.source import Builtin, Values
from anyformer.data.sources import SourceFile, find_sources

RATE = 16_000
"""Samples per second."""
COUNT = 1600
"""Recordings."""
_HARMONICS = 20
Numbers = NDArray[np.float64]


def _sum(turns: Numbers, share: Callable[[int], float]) -> Numbers:
    """Harmonics below half of the rate, of a wave that has made so many turns."""
    step = float(np.max(np.diff(turns)))
    return sum((share(k) * np.sin(2 * np.pi * k * turns) for k in range(1, _HARMONICS) if k * step < 0.5), np.zeros(len(turns)))


def _even(turns: Numbers, time: Numbers, noise: Numbers) -> Numbers:
    return np.sin(2 * np.pi * turns)


def _square(turns: Numbers, time: Numbers, noise: Numbers) -> Numbers:
    return _sum(turns, lambda k: k % 2 / k)


def _saw(turns: Numbers, time: Numbers, noise: Numbers) -> Numbers:
    return _sum(turns, lambda k: 1 / k)


def _triangle(turns: Numbers, time: Numbers, noise: Numbers) -> Numbers:
    return _sum(turns, lambda k: k % 2 * (-1) ** (k // 2) / k**2)


def _rising(turns: Numbers, time: Numbers, noise: Numbers) -> Numbers:
    return np.sin(2 * np.pi * turns * (0.5 + 0.5 * time))


def _falling(turns: Numbers, time: Numbers, noise: Numbers) -> Numbers:
    return np.sin(2 * np.pi * turns * (1.5 - 0.5 * time))


def _beating(turns: Numbers, time: Numbers, noise: Numbers) -> Numbers:
    return np.sin(2 * np.pi * turns) * np.sin(2 * np.pi * 4 * time)


def _noise(turns: Numbers, time: Numbers, noise: Numbers) -> Numbers:
    return noise


SHAPES: Mapping[str, Callable[[Numbers, Numbers, Numbers], Numbers]] = {
    "sine": _even,
    "square": _square,
    "saw": _saw,
    "triangle": _triangle,
    "rising": _rising,
    "falling": _falling,
    "beating": _beating,
    "noise": _noise,
}
"""The classes: a wave from the turns that it has made, the share of the time that has passed, and noise."""


def tone(name: str, *seed: int) -> NDArray[np.int16]:
    """A tone of a class, (samples,) of 0.2 to 0.5 s at 16 kHz, 150 to 1,200 Hz; the rest depends on `seed` alone."""
    draws = np.random.default_rng(seed)
    length = int(draws.uniform(0.2, 0.5) * RATE)
    pitch = 150 * 8 ** draws.uniform()
    turns: Numbers = draws.uniform() + pitch / RATE * np.arange(length, dtype=np.float64)
    wave = SHAPES[name](turns, np.arange(length, dtype=np.float64) / length, draws.uniform(-1, 1, length))
    wave = wave / np.abs(wave).max() + 10 ** (-draws.uniform(20, 40) / 20) * draws.uniform(-1, 1, length)
    whole: NDArray[np.int16] = np.round(draws.uniform(0.1, 0.9) * 2**14 * wave).astype(np.int16)
    return whole


def _files() -> list[SourceFile]:
    return find_sources([str(Path(__file__))])


def _tones(source: SourceFile) -> Iterator[Values]:
    names = tuple(SHAPES)
    for number in range(COUNT):
        name = names[number % len(names)]
        yield number + 1, {"sound": {"array": tone(name, number), "sampling_rate": RATE}, "label": name}


TONES = Builtin("tones", "Sounds: tones of eight classes.", _tones, _files)
