"""Texts beside images: pictures of shapes say what they show; paths, arrays, Parquet and folders give the same records."""

from __future__ import annotations

import io
import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from anyformer.catalogue import architecture
from anyformer.data import Captions, Data, ImageTexts, QuestionsAboutImages, prepare
from anyformer.data.builtin import SOURCES
from anyformer.data.builtin.shapes import COLOURS, inside, shapes_of
from anyformer.data.recognising import recognised
from anyformer.text import DataError

PIXELS = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)


def pictures(word: str, count: int = 400):
    return list(itertools.islice((row.values for file in SOURCES[word].sources() for row in SOURCES[word].rows(file)), count))


def table(folder, kind: type[Data], paths, **fields):
    plain = {"paths": [str(path) for path in paths], "height": 6, "width": 8, "tokenizer": {"kind": "bytes"}, "validation": 0.0}
    return prepare(kind.parse({**plain, **fields}), folder / "cache", 1, progress=False).train


def text(numbers) -> str:
    return bytes(numbers.tolist()).decode()


@pytest.fixture
def png(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def test_a_caption_says_what_is_on_the_picture():
    """Colours and places are found in the pixels, by their boxes alone."""
    seen = set()
    for row in pictures("shapes"):
        words = [word for word in row["text"].split() if word not in ("a", "of")]
        assert row["image"].shape == (3, 24, 24)
        places = []
        for box in row["boxes"]:
            left, top, right, bottom = box["box"]
            colour, _ = box["label"].split()
            strongest = row["image"][:, top:bottom, left:right].reshape(3, -1).astype(int)
            pixel = strongest[:, (strongest.max(0) - strongest.min(0)).argmax()]
            nearest = min(COLOURS, key=lambda name: abs(np.array(COLOURS[name]) - pixel).sum())
            assert nearest == colour
            assert box["label"] in row["text"]
            places.append(((left + right) / 2, (top + bottom) / 2))
        if len(places) == 2:
            (x0, y0), (x1, y1) = places
            said = words[2]
            truth = {"left": x0 < x1, "right": x0 > x1, "above": y0 < y1, "below": y0 > y1}
            assert truth[said], row["text"]
            assert (abs(x0 - x1) > abs(y0 - y1)) == (said in ("left", "right"))
            seen.add(said)
    assert seen == {"left", "right", "above", "below"}


def test_a_box_holds_all_pixels_of_its_shape_and_none_is_cut():
    for number in range(300):
        for shape in shapes_of(number):
            left, top, right, bottom = shape.box
            held = shape.mask[top:bottom, left:right]
            assert held.sum() == shape.mask.sum() > 8
            assert all(edge.any() for edge in (held[0], held[-1], held[:, 0], held[:, -1]))
            row, column = shape.cell
            assert row * 12 <= top < bottom <= row * 12 + 12
            assert column * 12 <= left < right <= column * 12 + 12


def test_questions_are_answered_by_the_caption():
    kinds = set()
    for row, shown in zip(pictures("shapes-questions"), pictures("shapes"), strict=True):
        assert np.array_equal(row["image"], shown["image"])
        question, answer, caption = row["question"], row["answer"], shown["text"]
        kinds.add(question.split()[1])
        if question.startswith("how many"):
            assert answer == {1: "one", 2: "two"}[len(shown["boxes"])]
        elif question.startswith("is there"):
            assert (answer == "yes") == (question.removeprefix("is there a ").removesuffix("?") in caption)
        elif question.startswith("what colour"):
            assert f"{answer} {question.removeprefix('what colour is the ').removesuffix('?')}" in caption
        else:
            way, _, other = question.removeprefix("what is ").removesuffix("?").partition(" the ")
            back = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}[way]
            assert caption in (f"{answer} {way} a {other}", f"a {other} {back} {answer}")
    assert kinds == {"many", "there", "colour", "is"}


def test_forms_are_told_apart_by_points():
    x = np.array([0.0, 0.9, 0.75])
    y = np.array([0.0, 0.0, 0.75])
    assert [inside(form, y, x, 1.0).tolist() for form in ("circle", "square", "triangle", "cross")] == [
        [True, True, False], [True, False, True], [True, False, True], [True, True, False],
    ]  # fmt: skip


def test_paths_arrays_bytes_and_folders_give_the_same_record(tmp_path, png):
    lines = tmp_path / "rows.jsonl"
    lines.write_text(json.dumps({"image": "a.png", "text": "a cat"}) + "\n")
    held = io.BytesIO()
    Image.fromarray(PIXELS).save(held, "PNG")
    parquet = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"image": [{"bytes": held.getvalue(), "path": "x.png"}], "text": ["a cat"]}), parquet)
    (tmp_path / "a.txt").write_text("a cat\n")
    for path, glob in ((lines, ()), (parquet, ()), (tmp_path, ("*.png",))):
        record = table(tmp_path, Captions, [path], glob=list(glob))[0]
        assert np.array_equal(record["image"], PIXELS.transpose(2, 0, 1))
        assert (text(record["text"]), text(record["prompt"])) == ("a cat", "")


def test_a_question_stands_before_its_answer(tmp_path, png):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"image": "a.png", "question": "what?", "answer": "a cat"}) + "\n")
    record = table(tmp_path, QuestionsAboutImages, [path])[0]
    assert (text(record["prompt"]), text(record["text"])) == ("what?", "a cat")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"image": "a.png", "text": " "}, r"field 'text' is empty"),
        ({"image": "a.png"}, r"no field 'text'"),
        ({"image": "none.png", "text": "a"}, r"none.png: no such image"),
        ({"image": 7, "text": "a"}, r"should be the path of an image"),
        ({"image": "../../a.png", "text": "a"}, r"leads out of the data set"),
    ],
)
def test_what_is_no_captioned_image_is_refused(tmp_path, png, row, reason):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError, match=rf"rows.jsonl:1: .*{reason}"):
        table(tmp_path, Captions, [path])


def test_bytes_that_are_no_image_are_refused(tmp_path):
    parquet = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"image": [{"bytes": b"no image", "path": "x.png"}], "text": ["a cat"]}), parquet)
    with pytest.raises(DataError, match=r"rows.parquet#0: field 'image': no whole image of a format that is read"):
        table(tmp_path, Captions, [parquet])


def test_records_are_recognised(tmp_path):
    assert recognised(("shapes",)).table == {"kind": "captions"}
    assert recognised(("shapes-questions",)).table == {"kind": "questions_about_images"}
    path = tmp_path / "metadata.jsonl"
    path.write_text(json.dumps({"file_name": "a.png", "text": "a"}) + "\n")
    assert recognised((str(path),)).table == {"kind": "captions", "image": "file_name"}


@pytest.mark.parametrize(("name", "side"), [("blip-caption-base", 384), ("llama-3.2-11b-vision", 16)])
def test_images_have_the_size_that_an_architecture_reads(name, side):
    """24 patches of 16 pixels and a class token are the 577 positions of BLIP's table."""
    for word, kind in (("shapes", Captions), ("shapes-questions", QuestionsAboutImages)):
        made = ImageTexts.usual(architecture(name), (word,))
        assert type(made) is kind
        assert (made.channels, made.height, made.width) == (3, side, side)
    with pytest.raises(DataError, match=r"none of the forms that are read here: `image` and `text`"):
        ImageTexts.usual(architecture(name), ("digits",))
