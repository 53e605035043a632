"""The synthesiser of speech: its resonators are those of the recursion, its formants are where they should be, and its words
can be told apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anyformer.data.builtin.spoken_digits import PHONES, WORDS, recording
from anyformer.data.builtin.tones import SHAPES, tone
from anyformer.sound import LogMel
from anyformer.sound.voice import RATE, STEP, Phone, Speaker, Utterance, _pulses, _resonated, spoken

MAN = Speaker(formants=1.0, pitch=100.0, tempo=1.0, breath=0.0)


def twin(x, centre, width):
    """One resonator, a sample at a time."""
    r = np.exp(-np.pi * width / RATE)
    b, c = 2 * r * np.cos(2 * np.pi * centre / RATE), -r * r
    y = np.zeros(len(x) + 2)
    for place, value in enumerate(x):
        y[place + 2] = (1 - b - c) * value + b * y[place + 1] + c * y[place]
    return y[2:]


def test_resonators_that_do_not_change_are_the_recursion():
    steps = 12
    x = np.random.default_rng(0).standard_normal(steps * STEP)
    wanted = twin(twin(x, 500, 80), 1500, 120)
    found = _resonated(x, np.full((steps + 1, 2), [500.0, 1500.0]), np.full((steps + 1, 2), [80.0, 120.0]))
    np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())


def test_the_flow_has_its_pitch_and_no_mean():
    flow = _pulses(np.full(RATE, 125.0))
    assert int((np.diff(flow) > 0.5).sum()) == pytest.approx(125, abs=1)
    assert abs(flow.mean()) < 1e-2
    assert flow.min() == pytest.approx(-1, abs=0.1)


@pytest.mark.parametrize("formants", [1.0, 1.2])
@pytest.mark.parametrize("vowel", ["IY", "EH", "AH", "UW"])
def test_a_vowel_is_loudest_at_its_formants(vowel, formants):
    """Between the first and the second formant a vowel is fainter than at both."""
    speaker = Speaker(formants, 60.0, 1.0, 0.0)
    phone = PHONES[vowel]
    sound = spoken(Utterance((Phone(0.6, phone.begin, phone.end),), speaker, 0))
    power = np.abs(np.fft.rfft(sound * np.hanning(len(sound)))) ** 2

    def near(hertz):
        place, reach = int(hertz * len(sound) / RATE), int(60 * len(sound) / RATE)
        return power[place - reach : place + reach].sum()

    first, second = phone.begin[0] * formants, phone.begin[1] * formants
    assert near(first) > 2 * near((first + second) / 2) < near(second) * 2


def test_noise_is_where_a_fricative_has_it():
    sound = spoken(Utterance((PHONES["S"],), MAN, 3))
    power = np.abs(np.fft.rfft(sound)) ** 2
    at = np.fft.rfftfreq(len(sound), 1 / RATE)
    assert power[(at > 4500) & (at < 6500)].sum() > 2 * power[at < 4000].sum()


def test_tempo_shortens_and_a_seed_is_a_recording():
    utterance = Utterance(tuple(PHONES[name] for name in WORDS[0].split()), MAN, 3)
    fast = Utterance(utterance.phones, Speaker(1.0, 100.0, 2.0, 0.0), 3)
    assert len(spoken(fast)) == pytest.approx(len(spoken(utterance)) / 2, abs=2 * STEP)
    np.testing.assert_array_equal(recording([1, 2], 5, 6), recording([1, 2], 5, 6))
    assert recording([1, 2], 5, 6).tobytes() != recording([1, 2], 5, 7).tobytes()


def pooled(sound: np.ndarray) -> np.ndarray:
    """Its log-mel in 12 stretches of equal length, as one vector of length one."""
    mel = LogMel().spectrum(torch.from_numpy(sound.astype(np.float32) / 2**15)[None])[0].numpy()
    parts = np.stack([part.mean(1) for part in np.array_split(mel, 12, axis=1)])
    parts = parts - parts.mean()
    return (parts / np.linalg.norm(parts)).ravel()


@pytest.mark.parametrize(
    ("make", "classes", "least"),
    [(lambda kind, seed: recording([kind], 9, seed), 10, 0.8), (lambda kind, seed: tone(tuple(SHAPES)[kind], seed), 8, 0.6)],
    ids=["digits", "tones"],
)
def test_classes_are_told_apart_by_their_neighbours(make, classes, least):
    """By the nearest of 20 recordings of every class, all by other speakers; chance is a tenth, or an eighth."""
    known = [(pooled(make(kind, seed)), kind) for kind in range(classes) for seed in range(20)]
    vectors, kinds = np.stack([vector for vector, _ in known]), np.array([kind for _, kind in known])
    asked = [(pooled(make(kind, seed)), kind) for kind in range(classes) for seed in range(20, 26)]
    right = [int(kinds[(vectors @ vector).argmax()]) == kind for vector, kind in asked]
    assert np.mean(right) > least, np.mean(right)
    assert np.mean(right) < 1.0, "it would teach nothing"
