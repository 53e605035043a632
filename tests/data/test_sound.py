"""Sounds as fields of records: by path, by bytes, as numbers; and what the kinds of data about sound keep and refuse."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import soundfile
from PIL import Image

from anyformer.data import Bytes, Images, Sounds, Speech, prepare
from anyformer.data.rows import BadRecord, RecordRow, image_field, rows, sound_field
from anyformer.text import DataError


def wav(samples: int = 800, rate: int = 8000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, 0.5 * np.sin(np.arange(samples) / 9), rate, format="WAV", subtype="FLOAT")
    return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data set of one sound, beside what does not belong to it."""
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.wav").write_bytes(wav())
    (tmp_path / "secret.wav").write_bytes(wav())
    return tmp_path / "set"


def field(folder: Path, value: object, rate: int = 8000) -> np.ndarray:
    return sound_field(RecordRow("x.jsonl:1", {"sound": value}, folder), "sound", rate)


def test_every_way_to_give_a_sound_gives_the_same(folder):
    wanted = 0.5 * np.sin(np.arange(800) / 9)
    array = {"array": wanted.astype(np.float32).tolist(), "sampling_rate": 8000}
    both = {"bytes": wav(), "path": "elsewhere.wav"}
    for value in ("a.wav", wav(), both, {"bytes": None, "path": "a.wav"}, {"path": "a.wav"}, array, array | {"path": "../x"}):
        found = field(folder, value)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, atol=1e-7)
        np.testing.assert_allclose(field(folder, value, 16_000), field(folder, wav(), 16_000), atol=1e-6)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("b.wav", "b.wav: no such sound"),
        ("../secret.wav", "leads out of the data set"),
        (7, "should be the path of a sound, got 7"),
        ([0.5], "should be the path of a sound"),
        (b"RIFF", "field 'sound': no file of a format"),
        ({"bytes": None, "path": None}, "has neither bytes nor the path of the sound"),
        ({"bytes": 3}, "has neither bytes nor the path of the sound"),
        ({"path": "../secret.wav"}, "leads out of the data set"),
        ({"array": [0.5]}, "and as sampling_rate None"),
        ({"array": [0.5], "sampling_rate": "8000"}, "and as sampling_rate '8000'"),
        ({"array": [0.5], "sampling_rate": 0}, "has 0 samples per second"),
        ({"array": [0, 900, -7], "sampling_rate": 8000}, "has whole numbers as samples, from -7 to 900, of unknown width"),
        ({"array": ["a"], "sampling_rate": 8000}, "should hold numbers as samples"),
        ({"array": [[0.5], [0.5, 0.1]], "sampling_rate": 8000}, "should hold numbers as samples"),
        ({"array": [float("nan")], "sampling_rate": 8000}, "holds samples from nan"),
        ({"array": None, "sampling_rate": 8000}, "are no sound|should hold numbers"),
    ],
)
def test_what_is_no_sound_is_a_bad_record(folder, value, reason):
    with pytest.raises(BadRecord, match=rf"x.jsonl:1: .*({reason})"):
        field(folder, value)


def prepared(data, folder: Path):
    return prepare(data, folder.parent / "cache", 1, progress=False)


def test_speech_is_a_sound_and_its_text(folder):
    path = folder / "x.jsonl"
    lines = [{"sound": "a.wav", "text": "ab"}, {"sound": {"array": [0.5] * 40, "sampling_rate": 4000}, "text": ""}]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    data = Speech(paths=(str(folder),), tokenizer=Bytes(), rate=8000, validation=0.0)
    table = prepared(data, folder).train
    assert table.lengths("sound").tolist() == [800, 80]
    assert [table[row]["text"].tolist() for row in (0, 1)] == [[97, 98], []]
    np.testing.assert_allclose(table[0]["sound"], 0.5 * np.sin(np.arange(800) / 9), atol=1e-7)
    with pytest.raises(DataError, match=r"x.jsonl:1: field 'sound' lasts 0.1 s, and 0.09 s is the most"):
        prepared(data.but(seconds=0.09), folder)
    assert len(prepared(data.but(seconds=0.09, skip_bad=1), folder).train) == 1


def test_sounds_of_a_directory_are_of_its_class_and_are_cut(folder):
    for place in ("yes/a.wav", "no/b.flac", "no/c.ogg"):
        path = folder / "classes" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(str(path), np.sin(np.arange(8000) / 9), 8000)
    data = Sounds(paths=(str(folder / "classes"),), rate=8000, seconds=0.5, validation=0.0)
    found = prepared(data, folder)
    assert found.names == {"label": ("no", "yes")}
    assert [int(found.train[row]["label"]) for row in range(3)] == [0, 0, 1]
    assert found.train.lengths("sound").tolist() == [4000] * 3
    assert prepared(data.but(labels=("yes", "no")), folder).names == {"label": ("yes", "no")}


@pytest.mark.parametrize("file", ["bytes", "path", "both", "plain"])
def test_parquet_as_datasets_stores_it(folder, file):
    """A struct of bytes and a path, either of which may be missing; or bytes alone."""
    shown = io.BytesIO()
    Image.new("RGB", (4, 4), (9, 0, 0)).save(shown, format="PNG")
    (folder / "a.png").write_bytes(shown.getvalue())

    def stored(content: bytes, path: str) -> object:
        whole = {"bytes": content, "path": path}
        return content if file == "plain" else whole if file == "both" else {**dict.fromkeys(whole), file: whole[file]}

    audio, image = stored(wav(), "a.wav"), stored(shown.getvalue(), "a.png")
    table = pyarrow.table({"audio": [audio] * 3, "image": [image] * 3, "text": ["a", "b", "c"]})
    pyarrow.parquet.write_table(table, folder / "x.parquet")
    for row in rows(str(folder / "x.parquet")):
        np.testing.assert_allclose(sound_field(row, "audio", 8000), 0.5 * np.sin(np.arange(800) / 9), atol=1e-7)
        assert image_field(row, "image", 3, 4, 4)[0].tolist() == [[9] * 4] * 4
    found = prepared(Speech(paths=(str(folder / "x.parquet"),), sound="audio", tokenizer=Bytes(), validation=0.0), folder)
    assert len(found.train) == 3
    pictures = Images(paths=(str(folder / "x.parquet"),), label="text", height=4, width=4, validation=0.0)
    assert len(prepared(pictures, folder).train) == 3


def test_images_by_bytes_that_are_none(folder):
    for value, reason in (
        (b"x", "field 'image': no whole image"),
        ({"bytes": None, "path": None}, "neither bytes nor the path"),
    ):
        with pytest.raises(BadRecord, match=reason):
            image_field(RecordRow("x:1", {"image": value}, folder), "image", 3, 4, 4)
