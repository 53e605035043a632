"""A sound as a person asks about it, and where inspection finds it."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from anyformer.cli.spectrogram import facts, print_heard
from anyformer.data import Bytes, Scored, Sounds, Speech, prepare
from anyformer.sound.heard import Heard


def tone(hertz: float, rate: int = 16_000, seconds: float = 0.5, loud: float = 0.5) -> Heard:
    return Heard((loud * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)).astype(np.float32), rate)


def test_how_long_and_how_loud():
    heard = tone(1000)
    assert heard.seconds == 0.5
    assert heard.peak == pytest.approx(0.5, rel=1e-3)
    assert heard.level == pytest.approx(20 * np.log10(0.5 / np.sqrt(2)), abs=0.01)
    assert facts(heard) == "sound: 0.50 s, 16,000 samples per second, level -9.0 dB, peak 0.50"
    silent = Heard(np.zeros(100, dtype=np.float32), 8000)
    assert silent.level == -120
    assert not silent.picture(4, 8).any()


@pytest.mark.parametrize("rate", [1000, 8000, 44_100])
def test_the_picture_has_high_bands_above(rate):
    low, high = tone(rate / 40, rate).picture(12, 30), tone(rate / 2.5, rate).picture(12, 30)
    assert low.shape == high.shape == (12, 30)
    assert low.mean(1).argmax() > 8
    assert high.mean(1).argmax() < 3
    assert low.min() == 0
    assert low.max() == 1
    rising = Heard(np.concatenate([np.zeros(rate), tone(rate / 4, rate).samples]).astype(np.float32), rate).picture(12, 30)
    assert rising[:, :15].mean() < rising[:, -8:].mean()


def test_a_sketch_on_a_screen():
    screen = io.StringIO()
    print_heard(Console(file=screen, width=80), tone(500))
    lines = screen.getvalue().splitlines()
    assert lines[0].startswith("sound: 0.50 s")
    assert len(lines) == 13
    assert "█" in lines[-1] + lines[-2] + lines[-3] + lines[-4]
    print_heard(Console(file=screen, width=80), Heard(np.zeros(1, dtype=np.float32), 8000))


def test_kinds_say_what_is_heard_of_a_record(tmp_path):
    sound = {"array": [0.5] * 80, "sampling_rate": 8000}
    path = tmp_path / "x.jsonl"
    path.write_text(str({"sound": sound, "text": "a", "label": "b", "value": 1}).replace("'", '"') + "\n")
    for kind, heard in ((Speech, True), (Sounds, True), (Scored, False)):
        data = kind.parse(
            {"paths": [str(path)], "tokenizer": Bytes().plain(), "validation": 0.0} | ({"rate": 8000} if heard else {})
        )
        record = prepare(data, tmp_path / "cache", 1, progress=False).train[0]
        found = data.heard(record)
        assert (found is not None) == heard
        assert found is None or (found.rate, found.seconds, found.peak) == (8000, 0.01, 0.5)
