"""The ten digits as a synthesiser of formants says them: one at a time with its class, and strings of them.

Words are as in the CMU Pronouncing Dictionary. Formants of vowels are men's averages of Peterson and Barney (1952, doi
10.1121/1.1906875), those of diphthongs and consonants of Klatt (1980, doi 10.1121/1.383940, table III). Every recording has a
speaker of its own: formants 0.95 to 1.3 times a man's, a pitch that goes with them, a tempo, a distance and a room's noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyformer.data.builtin.source import Builtin, Values
from anyformer.data.sources import SourceFile, find_sources
from anyformer.sound.voice import RATE, Phone, Speaker, Utterance, spoken

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SINGLE, STRINGS = 2000, 1000
"""Recordings of one digit, and of strings of two to five."""


def _steady(seconds: float, one: float, two: float, three: float, **other: float) -> Phone:
    return Phone(seconds, (one, two, three), (one, two, three), **other)


PHONES = {
    "IY": _steady(0.16, 270, 2290, 3010),
    "IH": _steady(0.10, 390, 1990, 2550),
    "EH": _steady(0.11, 530, 1840, 2480),
    "AH": _steady(0.12, 640, 1190, 2390),
    "AX": _steady(0.06, 500, 1400, 2400, voice=0.8),
    "AO": _steady(0.15, 570, 840, 2410),
    "UW": _steady(0.19, 300, 870, 2240),
    "OW": Phone(0.20, (540, 1100, 2300), (450, 900, 2300)),
    "AY": Phone(0.21, (660, 1200, 2550), (400, 1880, 2500)),
    "EY": Phone(0.19, (480, 1720, 2520), (330, 2200, 2600)),
    "W": _steady(0.07, 290, 610, 2150, voice=0.6),
    "R": _steady(0.07, 310, 1060, 1380, voice=0.7),
    "N": _steady(0.09, 280, 1340, 2470, voice=0.4),
    "V": _steady(0.07, 220, 1100, 2080, voice=0.4, noise=0.04, centre=4500, width=4000),
    "Z": _steady(0.09, 240, 1390, 2530, voice=0.3, noise=0.12, centre=5500, width=1500),
    "F": _steady(0.11, 340, 1100, 2080, voice=0.0, noise=0.06, centre=4500, width=4500),
    "TH": _steady(0.11, 320, 1290, 2540, voice=0.0, noise=0.05, centre=6500, width=3000),
    "S": _steady(0.13, 320, 1390, 2530, voice=0.0, noise=0.22, centre=5500, width=1200),
    "K": _steady(0.03, 300, 1990, 2850, voice=0.0, noise=0.16, centre=2000, width=500),
    "T": _steady(0.03, 400, 1600, 2600, voice=0.0, noise=0.20, centre=4200, width=1500),
    "-": _steady(0.05, 350, 1500, 2500, voice=0.0),
}
"""Sounds by their names in ARPAbet; `-` is the silence in which a stop is closed."""
WORDS = ("Z IH R OW", "W AH N", "- T UW", "TH R IY", "F AO R", "F AY V", "S IH - K S", "S EH V AX N", "EY - T", "N AY N")
"""The sounds of the digits from zero."""


def _speaker(draws: np.random.Generator) -> Speaker:
    formants = draws.uniform(0.95, 1.3)
    pitch = 105 * 2 ** (draws.uniform(-0.3, 0.3) + (formants - 0.95) / 0.3)
    return Speaker(formants, pitch, draws.uniform(0.8, 1.25), draws.uniform(0.02, 0.12))


def recording(string: Sequence[int], *seed: int) -> NDArray[np.int16]:
    """A string of digits as it is said, (samples,) at 16 kHz, by a speaker that depends on `seed`."""
    draws = np.random.default_rng(seed)
    sound = spoken(Utterance(tuple(_phones(string, draws)), _speaker(draws), int(draws.integers(2**31))))
    return _recorded(sound, draws)


def _phones(string: Sequence[int], draws: np.random.Generator) -> Iterator[Phone]:
    """Their sounds, each a little longer or shorter, with pauses between the words."""
    for place, digit in enumerate(string):
        if place:
            yield _steady(draws.uniform(0.02, 0.12), 500, 1500, 2500, voice=0.0)
        for name in WORDS[digit].split():
            phone, share = PHONES[name], draws.uniform(0.85, 1.2)
            shift = draws.uniform(0.96, 1.04, 3)
            begin, end = (tuple(float(each) for each in np.array(side) * shift) for side in (phone.begin, phone.end))
            yield Phone(phone.seconds * share, begin, end, phone.voice, phone.noise, phone.centre, phone.width)  # type: ignore[arg-type]


def _recorded(sound: NDArray[np.float64], draws: np.random.Generator) -> NDArray[np.int16]:
    """Silence around it, its loudness, and the noise of a room, 25 to 50 dB below; in 16 bits."""
    before, behind = (int(draws.uniform(0.03, 0.15) * RATE) for _ in range(2))
    whole = np.pad(sound, (before, behind)) + 10 ** (-draws.uniform(25, 50) / 20) * draws.uniform(
        -1, 1, before + len(sound) + behind
    )
    scaled = whole / np.abs(whole).max() * draws.uniform(0.2, 0.9)
    numbers: NDArray[np.int16] = np.round(scaled * (2**15 - 1)).astype(np.int16)
    return numbers


def _files() -> list[SourceFile]:
    return find_sources([str(Path(__file__))])


def _singles(source: SourceFile) -> Iterator[Values]:
    for number in range(SINGLE):
        digit = number % 10
        sound = {"array": recording([digit], 0, number), "sampling_rate": RATE}
        yield number + 1, {"sound": sound, "label": str(digit), "text": NAMES[digit]}


def _strings(source: SourceFile) -> Iterator[Values]:
    for number in range(STRINGS):
        draws = np.random.default_rng([1, number])
        string = draws.integers(0, 10, int(draws.integers(2, 6))).tolist()
        sound = {"array": recording(string, 2, number), "sampling_rate": RATE}
        yield number + 1, {"sound": sound, "text": " ".join(NAMES[digit] for digit in string)}


DIGITS_SAID = Builtin("spoken-digits", "Sounds: synthesised digits with their words, ten classes.", _singles, _files, 2.0)
STRINGS_SAID = Builtin(
    "spoken-digit-strings", "Speech: two to five synthesised digits, and their words.", _strings, _files, 6.0
)
