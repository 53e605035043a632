"""Files of sound: whatever lies in them is a sound or an error for people, in bounded memory."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile

from anyformer.sound import SoundError, fitted_sound, read_sound, reading

TONE = (0.5 * np.sin(2 * np.pi * 440 * np.arange(8000) / 16_000)).astype(np.float32)
"""Half a second of a tone at 16 kHz."""


def made(samples: np.ndarray, rate: int = 16_000, **form: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, **({"format": "WAV"} | form))
    return file.getvalue()


def wav(frames: int, channels: int = 1, rate: int = 16_000, kind: int = 1, bits: int = 16, data: bytes = b"") -> bytes:
    """A WAV file whose header says what it likes."""
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * block & 0xFFFFFFFF, block & 0xFFFF, bits)
    size = frames * block & 0xFFFFFFFF
    head = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", size)
    return b"RIFF" + struct.pack("<I", len(head) + size & 0xFFFFFFFF) + head + data


@pytest.mark.parametrize(
    ("form", "near"),
    [
        ({"format": "WAV", "subtype": "PCM_16"}, 1e-4),
        ({"format": "WAV", "subtype": "PCM_24"}, 1e-6),
        ({"format": "WAV", "subtype": "FLOAT"}, 0),
        ({"format": "WAV", "subtype": "ULAW"}, 2e-2),
        ({"format": "FLAC"}, 1e-4),
        ({"format": "OGG", "subtype": "VORBIS"}, 0.1),
        ({"format": "MP3"}, 0.1),
    ],
    ids=str,
)
def test_the_four_formats_are_read_as_files_and_as_bytes(form, near, tmp_path):
    content = made(TONE, **form)
    found = read_sound(content, 16_000)
    assert found.dtype == np.float32
    assert found.shape == TONE.shape
    np.testing.assert_allclose(found[500:-500], TONE[500:-500], atol=near)
    (tmp_path / "sound").write_bytes(content)
    for place in (tmp_path / "sound", str(tmp_path / "sound")):
        np.testing.assert_array_equal(read_sound(place, 16_000), found)


def test_channels_are_mixed_and_rates_changed():
    stereo = np.stack([TONE, np.zeros_like(TONE)], 1)
    np.testing.assert_allclose(read_sound(made(stereo, subtype="FLOAT"), 16_000), TONE / 2, atol=1e-7)
    for rate in (8000, 22_050, 48_000):
        found = read_sound(made(TONE, subtype="FLOAT"), rate)
        assert len(found) == rate // 2
        wanted = 0.5 * np.sin(2 * np.pi * 440 * np.arange(rate // 2) / rate)
        np.testing.assert_allclose(found[500:-500], wanted[500:-500], atol=2e-3)
        np.testing.assert_allclose(fitted_sound(TONE, 16_000, rate), found)
    high = np.sin(2 * np.pi * 6000 * np.arange(16_000) / 16_000).astype(np.float32)
    assert abs(read_sound(made(high), 8000)[500:-500]).max() < 1e-3  # what the lower rate cannot hold is not folded into it


def test_arrays_are_sounds_by_their_type():
    halves = {np.int16: 2**14, np.int32: 2**30, np.uint8: 192, np.float64: 0.5}
    for kind, half in halves.items():
        found = fitted_sound(np.full(10, half, dtype=kind), 16_000, 16_000)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, 0.5)
    both = np.stack([TONE, -TONE])
    np.testing.assert_allclose(fitted_sound(both, 16_000, 16_000), 0, atol=1e-7)
    for wrong in (np.zeros((2, 2, 2)), np.zeros(3, dtype=bool), np.zeros((33, 9)), np.zeros(0), np.array(["a"])):
        with pytest.raises(SoundError, match=r"are no sound|holds no samples"):
            fitted_sound(wrong, 16_000, 16_000)


@pytest.mark.parametrize("form", ["AIFF", "AU", "CAF", "W64", "RF64", "VOC", "NIST", "SD2", "MAT5", "PAF", "IRCAM", "SVX"])
def test_other_formats_are_refused(form, tmp_path):
    path = tmp_path / "sound.wav"
    try:
        soundfile.write(str(path), TONE, 16_000, format=form, subtype="PCM_16")
    except soundfile.LibsndfileError:
        pytest.skip(f"this libsndfile writes no {form}")
    with pytest.raises(SoundError, match="no file of a format that is read"):
        read_sound(path, 16_000)


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.wav")
    for path in (tmp_path / "pipe.wav", tmp_path, Path("/dev/zero")):
        with pytest.raises(SoundError, match="is no regular file"):
            read_sound(path, 16_000)
    for name in ("absent.wav", "nul\0.wav", "x" * 5000, "half\ud800.wav"):
        with pytest.raises(SoundError, match="no such sound"):
            read_sound(tmp_path / name, 16_000)


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG", "MP3"])
def test_nothing_beside_a_sound_is_opened(form, tmp_path, monkeypatch):
    """libsndfile looks for the second file of a Sound Designer II file, which systems of Apple leave beside any."""
    content = made(TONE, format=form)
    (tmp_path / "sound").write_bytes(content)
    for name in ("._", "._sound", ".AppleDouble"):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    for source in (content, tmp_path / "sound", "sound"):
        assert len(read_sound(source, 16_000)) == len(TONE)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (wav(64, channels=33, data=bytes(33 * 128)), "33 channels"),
        (wav(64, rate=10, data=bytes(128)), "10 samples per second"),
        (wav(64, rate=2**30, data=bytes(128)), "samples per second"),
        (wav(0), "holds no samples"),
        (wav(4, kind=3, bits=32, data=np.array([0, np.nan, 0, 0], "<f4").tobytes()), "holds samples from nan"),
        (wav(4, kind=3, bits=32, data=np.array([0, np.inf, 0, 0], "<f4").tobytes()), "holds samples from 0 to inf"),
        (wav(4, kind=3, bits=32, data=np.array([0, 1e30, 0, 0], "<f4").tobytes()), "holds samples from 0 to 1e"),
        (b"", "no file of a format that is read"),
        (b"RIFF\0\0\0\0AVI LIST", "no file of a format that is read"),
        (b"RIFF\0\0\0\0WAVE", "damaged, or no sound"),
        (b"fLaC" + bytes(60), "damaged, or no sound"),
        (b"OggS" + bytes(60), "damaged, or no sound"),
        (b"ID3" + bytes(60), "damaged, or no sound"),
    ],
)
def test_what_is_no_sound_is_an_error(content, reason):
    with pytest.raises(SoundError, match=rf"a sound in bytes: .*({reason})"):
        read_sound(content, 16_000)


def test_every_failure_of_a_decoder_is_an_error_for_people(monkeypatch):
    content = made(TONE)
    for error in (ValueError("x"), RuntimeError("x"), TypeError("x"), soundfile.LibsndfileError(1), MemoryError()):
        monkeypatch.setattr(soundfile.SoundFile, "read", lambda *_, error=error, **__: (_ for _ in ()).throw(error))
        with pytest.raises(SoundError, match="damaged"):
            read_sound(content, 16_000)


def flac_of(samples: int, said: int) -> bytes:
    """Silence, of which FLAC keeps a few bytes per 4,096 samples; its header says how many, or 0: that nobody knows."""
    content = bytearray(made(np.zeros(samples, dtype=np.int16), 48_000, format="FLAC"))
    assert content[4] & 0x7F == 0, "the stream's description comes first"
    content[21] = content[21] & 0xF0 | said >> 32
    content[22:26] = struct.pack(">I", said & 0xFFFFFFFF)
    return bytes(content)


def test_a_length_is_refused_before_a_sample_is_read(monkeypatch):
    monkeypatch.setattr(soundfile.SoundFile, "read", None)
    with pytest.raises(SoundError, match="lasts 178,957 s, and 699 s is the most at 48,000 samples per second"):
        read_sound(flac_of(8000, 2**33 - 1), 16_000)


def test_a_sound_that_hides_its_length_ends_at_the_bound(monkeypatch):
    content = flac_of(2_000_000, 0)
    assert len(content) < 40_000
    monkeypatch.setattr(reading, "SAMPLES", 2**19)
    tracemalloc.start()
    with pytest.raises(SoundError, match="and 11 s is the most at 48,000 samples per second"):
        read_sound(content, 48_000)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_a_sound_is_bounded_by_what_it_becomes_too(monkeypatch):
    monkeypatch.setattr(reading, "SAMPLES", 9000)
    assert len(read_sound(made(TONE), 16_000)) == 8000
    with pytest.raises(SoundError, match=r"lasts 0 s, and 0 s is the most at 48,000 samples per second"):
        read_sound(made(TONE), 48_000)
    monkeypatch.setattr(reading, "BYTES", 1000)
    with pytest.raises(SoundError, match="has 16,044 bytes, and 1,000 is the most"):
        read_sound(made(TONE), 16_000)


def test_no_sound_starts_another_program(monkeypatch, tmp_path):
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a program is started")

    monkeypatch.setattr(subprocess.Popen, "__init__", refused)
    monkeypatch.setattr(os, "system", refused)
    for form in ({"format": "WAV"}, {"format": "FLAC"}, {"format": "OGG"}, {"format": "MP3"}):
        assert len(read_sound(made(TONE, **form), 8000)) > 0


@pytest.mark.parametrize("name", ["soundfile", "soxr"])
def test_a_library_that_is_not_there_is_named(name, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SoundError, match=rf"{name}.*not installed; pip install 'anyformer\[audio\]'"):
        read_sound(made(TONE), 8000)
    if name == "soxr":
        assert len(read_sound(made(TONE), 16_000)) == 8000
