"""A small synthesiser of speech: pulses and noise through resonators at its formants (Klatt 1980, doi 10.1121/1.383940)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
RATE = 16_000
"""Samples per second."""
STEP = 160
"""Samples from one place where resonators are set to the next: 10 ms."""
_POINTS = 1024
"""Samples for which a resonator rings, and its input, at most."""
_OPEN = 0.6
"""The share of a period in which the glottis is open."""
_UPPER = (3300.0, 3850.0, 4900.0)
"""Hertz of the formants above the third, the same in every sound."""
_WIDTHS = (70.0, 100.0, 150.0, 250.0, 300.0, 400.0)
"""Bandwidths of the formants in hertz."""


@dataclass(frozen=True)
class Phone:
    """A sound of speech: `seconds`; its first three formants in hertz when it begins and ends; how loud its voice and its noise
    are; and where the noise is loudest, and how broad it is."""

    seconds: float
    begin: tuple[float, float, float]
    end: tuple[float, float, float]
    voice: float = 1.0
    noise: float = 0.0
    centre: float = 3000.0
    width: float = 2000.0


@dataclass(frozen=True)
class Speaker:
    """`formants`: by how much a speaker's are higher than a man's; `pitch` in hertz; `tempo`: by how much speech is faster;
    `breath`: how much noise is in the voice."""

    formants: float
    pitch: float
    tempo: float
    breath: float


@dataclass(frozen=True)
class Utterance:
    """What is said, by whom, and the number of its noise."""

    phones: tuple[Phone, ...]
    speaker: Speaker
    seed: int


def spoken(utterance: Utterance) -> Numbers:
    """Its samples at `RATE`, (samples,), the loudest 1."""
    track = _Tracks.of(utterance)
    white = np.random.default_rng(utterance.seed).uniform(-1, 1, (2, (len(track.voice) - 1) * STEP))
    voice, noise, pitch = (_per_sample(values) for values in (track.voice, track.noise, track.pitch))
    sung = voice * (_pulses(pitch) + utterance.speaker.breath * white[0])
    widths = np.broadcast_to(_WIDTHS, track.formants.shape)
    heard = _loudest_one(_resonated(sung, track.formants, widths))
    hiss = noise * white[1]
    if hiss.any():
        rough = _resonated(hiss, track.centres[:, None], track.widths[:, None])
        heard = heard + rough * np.sqrt((hiss @ hiss) / (rough @ rough))  # as loud, whatever its resonator
    return _loudest_one(heard)


@dataclass(frozen=True)
class _Tracks:
    """What an utterance is where a step begins, and where the last one ends: (steps + 1,), the formants (steps + 1, 6)."""

    formants: Numbers
    voice: Numbers
    noise: Numbers
    pitch: Numbers
    centres: Numbers
    widths: Numbers

    @staticmethod
    def of(utterance: Utterance) -> _Tracks:
        """Formants glide straight from the second half of a sound to the first half of the next, loudness within 10 ms."""
        phones, speaker = utterance.phones, utterance.speaker
        ends = np.cumsum([phone.seconds / speaker.tempo for phone in phones])
        begins = np.concatenate([[0.0], ends[:-1]])
        times = np.arange(int(np.ceil(ends[-1] * RATE / STEP)) + 1) * STEP / RATE
        held = [(begin + share * (end - begin)) for begin, end in zip(begins, ends, strict=True) for share in (0.3, 0.7)]
        targets = np.array([target for phone in phones for target in (phone.begin, phone.end)]) * speaker.formants
        low = np.stack([np.interp(times, held, targets[:, number]) for number in range(3)], 1)
        upper = np.broadcast_to(np.array(_UPPER) * speaker.formants, (len(times), 3))
        near = [edge for begin, end in zip(begins, ends, strict=True) for edge in (begin + 0.005, max(begin, end - 0.005))]

        def loud(values: Sequence[float]) -> Numbers:
            return np.interp(times, near, np.repeat(values, 2))

        which = np.minimum(np.searchsorted(ends, times), len(phones) - 1)
        centres, widths = (np.array([[phone.centre, phone.width][number] for phone in phones])[which] for number in (0, 1))
        fall = speaker.pitch * (1.1 - 0.25 * times / ends[-1])
        formants = np.minimum(np.concatenate([low, upper], 1), 0.47 * RATE)
        return _Tracks(formants, loud([p.voice for p in phones]), loud([p.noise for p in phones]), fall, centres, widths)


def _per_sample(values: Numbers) -> Numbers:
    places = np.arange(len(values)) * STEP
    return np.asarray(np.interp(np.arange(places[-1]), places, values), dtype=np.float64)


def _pulses(pitch: Numbers) -> Numbers:
    """The change of the flow through the glottis: 2 u - 3 u^2 while it is open (KLGLOTT88, Klatt and Klatt 1990)."""
    u = np.cumsum(pitch / RATE) % 1.0 / _OPEN
    return np.asarray(np.where(u < 1, 2 * u - 3 * u * u, 0.0))


def _resonated(x: Numbers, centres: Numbers, widths: Numbers) -> Numbers:
    """x (samples,) through resonators one behind the other, of `centres` and `widths` (steps + 1, resonators) in hertz.

    Of one, y[n] = (1 - b - c) x[n] + b y[n-1] + c y[n-2] with b = 2 r cos(2 pi centre / rate), c = -r^2 and r = exp(-pi width /
    rate). Windows of two steps, which overlap by one and add up to x, ring for `_POINTS` samples as their middle says.
    """
    edges, count = centres.shape
    r = np.exp(-np.pi * widths / RATE)
    factors = np.stack([np.ones_like(r), -2 * r * np.cos(2 * np.pi * centres / RATE), r * r], 2)
    below = np.ones((edges, 1))
    for number in range(count):
        wider = np.zeros((edges, below.shape[1] + 2))
        for place in range(3):
            wider[:, place : place + below.shape[1]] += factors[:, number, place, None] * below
        below = wider
    padded = np.pad(x, STEP)
    window = 0.5 - 0.5 * np.cos(np.pi * np.arange(2 * STEP) / STEP)
    cut = np.lib.stride_tricks.sliding_window_view(padded, 2 * STEP)[::STEP] * window
    response = factors.sum(2).prod(1)[:, None] / np.fft.rfft(below, _POINTS)
    rung = np.fft.irfft(np.fft.rfft(cut, _POINTS) * response, _POINTS)
    y = np.zeros(edges * STEP + _POINTS)
    for place, part in zip(range(0, edges * STEP, STEP), rung, strict=True):
        y[place : place + _POINTS] += part
    return y[STEP:][: len(x)]


def _loudest_one(sound: Numbers) -> Numbers:
    return sound / max(1e-9, float(np.abs(sound).max()))
