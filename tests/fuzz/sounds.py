"""Cases of sounds: files of every format that there is, damaged, under other names, or of lengths that they do not have; read
as a record's field, as bytes, as a directory's files, and prepared."""

from __future__ import annotations

import io
import json
import os
import random
import struct
from functools import cache
from pathlib import Path

import numpy as np
import soundfile

from anyformer.data import Sounds, prepare
from anyformer.data.rows import RecordRow, rows, sound_field
from fuzz.damage import damaged
from fuzz.guard import OUTSIDE, place
from fuzz.images import NAMES as IMAGES
from fuzz.kind import Case, Kind

READ = (
    ("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "FLOAT"), ("WAV", "DOUBLE"), ("WAV", "ULAW"), ("WAV", "IMA_ADPCM"),
    ("WAV", "MS_ADPCM"), ("WAV", "GSM610"), ("WAV", "G721_32"), ("WAVEX", "PCM_16"), ("FLAC", "PCM_16"), ("FLAC", "PCM_24"),
    ("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III"),
)  # fmt: skip
OTHER = ("AIFF", "AU", "CAF", "W64", "RF64", "VOC", "NIST", "SD2", "MAT4", "MAT5", "PAF", "IRCAM", "SVX", "WVE", "XI", "HTK")
COUNTS = (0, 1, 2, 8, 255, 65_535, 2**20, 2**25, 2**31 - 1, 2**32 - 1)
NAMES = tuple(name.replace(".png", ".wav").replace(".jpg", ".flac").replace("image", "sound") for name in IMAGES)
RATES = (1, 8000, 16_000, 16_000, 16_000, 22_050, 48_000)


def sound(seed: int) -> Case:
    """One file, and one record that names or holds it."""
    draw = random.Random(seed)
    content, name, rate = sound_content(draw), draw.choice(NAMES), draw.choice(RATES)
    way = draw.choice((_field, _field, _bytes, _bytes, _directory, _prepared))

    def run() -> None:
        with place({"sound.wav": sound_saved("WAV", "PCM_16")}) as inside:
            outside = inside.parent / OUTSIDE / "sound.wav"
            (inside / "x").mkdir()
            (inside / "link.wav").symlink_to(outside)
            (inside / "out").symlink_to(outside.parent)
            os.mkfifo(inside / "pipe.wav")
            for file in ("sound.wav", "sound.flac"):
                (inside / file).write_bytes(content)
            way(inside, str(outside) if seed % 50 == 0 else name, rate)

    return run


def _field(inside: Path, name: str, rate: int) -> None:
    """A record's field."""
    (inside / "records.jsonl").write_text(json.dumps({"sound": name, "label": "x"}))
    for row in rows(inside / "records.jsonl"):
        sound_field(row, "sound", rate)


def _bytes(inside: Path, name: str, rate: int) -> None:
    """A record that holds the file."""
    held = (inside / "sound.wav").read_bytes()
    sound_field(RecordRow("x", {"sound": {"bytes": held, "path": name}}, inside), "sound", rate)


def _directory(inside: Path, name: str, rate: int) -> None:
    """The files of a directory, links and pipes among them."""
    for path in ("sound.wav", "sound.flac"):
        for row in rows(inside / path):
            sound_field(row, "sound", rate)


def _prepared(inside: Path, name: str, rate: int) -> None:
    (inside / "link.wav").unlink()
    (inside / "out").unlink()
    data = Sounds(paths=(str(inside),), rate=16_000, seconds=2.0, validation=0.0, skip_bad=1)
    prepare(data, inside / "cache", workers=1, progress=False).summary()


def sound_content(draw: random.Random) -> bytes:
    """A file, whole or not."""
    match draw.choice(("whole", "damaged", "damaged", "damaged", "damaged", "other", "sized", "sized", "long", "text")):
        case "whole":
            return sound_saved(*draw.choice(READ))
        case "other":
            content = sound_saved(draw.choice(OTHER), "PCM_16")
            return content if draw.random() < 0.5 else damaged(content, draw)
        case "sized":
            return _sized(draw)
        case "long":
            return _long(draw)
        case "text":
            return draw.choice(
                (
                    b"",
                    b"RIFF",
                    b"RIFF\0\0\0\0WAVE",
                    b"fLaC",
                    b"OggS\0\2",
                    b"ID3\4",
                    b"\xff\xfb",
                    b"\xff\xfb\x90d" * 9000,
                    bytes(5000),
                )
            )
    return damaged(sound_saved(*draw.choice(READ)), draw)


def _sized(draw: random.Random) -> bytes:
    """A WAV file that says what it likes of its channels, rate, bits and length."""
    kind, channels, bits = (
        draw.choice((0, 1, 1, 1, 2, 3, 6, 7, 17, 49, 85, 65_534)),
        draw.choice(COUNTS) & 0xFFFF,
        draw.choice(COUNTS),
    )
    rate, length, block = draw.choice((0, 1, 999, 16_000, 16_000, 384_001, 2**32 - 1)), draw.choice(COUNTS), draw.choice(COUNTS)
    form = struct.pack("<HHIIHH", kind, channels, rate, rate, block & 0xFFFF, draw.choice((8, 16, 24, 32, 64, bits & 0xFFFF)))
    form += draw.choice((b"", b"\0\0", struct.pack("<H", 22) + draw.randbytes(22)))
    chunks = b"fmt " + struct.pack("<I", draw.choice((len(form), 16, length))) + form
    chunks = draw.choice((b"", b"LIST" + struct.pack("<I", length), b"fact\4\0\0\0" + draw.randbytes(4))) + chunks
    data = b"data" + struct.pack("<I", length) + draw.randbytes(draw.choice((0, 1, 400, 4000)))
    return b"RIFF" + struct.pack("<I", draw.choice(COUNTS)) + b"WAVE" + chunks + data


def _long(draw: random.Random) -> bytes:
    """Silence of minutes or hours in few bytes, which says how long it lasts, or something else."""
    content = bytearray(_silence(draw.choice((2**18, 2**20, 2**22))))
    said = draw.choice((0, 1, 2**20, 2**25 + 1, 2**36 - 1))
    if draw.random() < 0.7:
        content[21] = content[21] & 0xF0 | said >> 32
        content[22:26] = struct.pack(">I", said & 0xFFFFFFFF)
    return bytes(content)


@cache
def _silence(samples: int) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(samples, dtype=np.int16), 16_000, format="FLAC")
    return file.getvalue()


@cache
def sound_saved(form: str, kind: str) -> bytes:
    """A short sound as a file; as WAV where this libsndfile does not write the format."""
    draws = np.random.default_rng(0)
    whole = 0.3 * np.sin(np.arange(4000) / 9) + 0.01 * draws.standard_normal(4000)
    for samples, rate in ((np.stack([whole, whole / 2], 1), 16_000), (whole, 16_000), (whole, 8000), (whole, 48_000)):
        file = io.BytesIO()
        try:
            soundfile.write(file, samples, rate, format=form, subtype=kind)
        except (soundfile.LibsndfileError, ValueError, TypeError):
            continue
        if file.getvalue():
            return file.getvalue()
    return sound_saved("WAV", "PCM_16")


KINDS = {"sounds": Kind(sound, 4_000, 150)}
