"""Kinds of records for heads: what is kept of a row, and which rows are refused."""

from __future__ import annotations

import ast
import itertools
import json

import numpy as np
import pytest
from PIL import Image

from anyformer.data import AnswerSpans, Bytes, Data, Labelled, Scored, Similar, UnlabelledImages, WordLabels, prepare
from anyformer.data.builtin import SOURCES
from anyformer.data.builtin.branches import complexity
from anyformer.data.fields import number_field, text_field
from anyformer.describe import DescriptionError
from anyformer.text import DataError, Tokenizer


def write(folder, *rows):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def table(folder, kind: type[Data], rows, **fields):
    data = kind.parse({"paths": [write(folder, *rows)], "tokenizer": {"kind": "bytes"}, "validation": 0.0, **fields})
    return prepare(data, folder / "cache", 1, progress=False).train


def text(numbers) -> str:
    return bytes(numbers.tolist()).decode()


def bytes_of(value: str) -> list[int]:
    """The tokens of text by a tokenizer of bytes, by the library's own numbers."""
    return Tokenizer.parse(BYTES).encode(value)


@pytest.fixture(scope="module", autouse=True)
def _bytes(tmp_path_factory):
    global BYTES
    folder = tmp_path_factory.mktemp("bytes")
    path = write(folder, {"text": "a", "value": 1})
    data = Scored(paths=(path,), tokenizer=Bytes(), validation=0.0)
    BYTES = prepare(data, folder / "cache", 1, progress=False).tokenizer.definition


def test_a_text_or_two_with_a_class_or_a_number(tmp_path):
    rows = [{"text": "a", "more": "bc", "label": 1, "value": "0.5"}, {"text": "", "more": "d", "label": "x", "value": 2}]
    labelled = table(tmp_path, Labelled, rows, text_pair="more")
    assert labelled.names == {"label": ("1", "x")}
    assert [int(labelled[row]["label"]) for row in range(2)] == [0, 1]
    assert [labelled[row]["pair"].tolist() for row in range(2)] == [bytes_of("bc"), bytes_of("d")]
    assert "pair" not in table(tmp_path, Labelled, rows).columns
    assert [float(table(tmp_path, Scored, rows)[row]["value"]) for row in range(2)] == [0.5, 2.0]
    with pytest.raises(DataError, match=r"rows.jsonl:1: field 'value' should be a finite number"):
        table(tmp_path, Scored, [{"text": "a", "value": "much"}])
    with pytest.raises(DescriptionError, match=r"text_pair: .*at least 1 character"):
        Scored(paths=("a.jsonl",), text_pair="")
    # A number of records stays one: 0.0 is a share, which is judged only when all are read.
    assert isinstance(Scored(paths=("a.jsonl",), skip_bad=0).skip_bad, int)


def test_an_image_alone(tmp_path):
    grid = np.arange(12, dtype=np.uint8).reshape(3, 4)
    Image.fromarray(grid).save(tmp_path / "a.png")
    size = {"channels": 1, "height": 3, "width": 4}
    found = table(tmp_path, UnlabelledImages, [{"image": "a.png", "label": 3}, {"image": "a.png"}], **size)
    assert list(found.columns) == ["image"]
    assert found.names == {}
    assert found[1]["image"].tolist() == [grid.tolist()]
    with pytest.raises(DataError, match=r"rows.jsonl:1: .*'image'"):
        table(tmp_path, UnlabelledImages, [{"label": 3}], **size)


def test_the_first_token_of_a_word_bears_its_class(tmp_path):
    rows = [{"words": ["ab", "c"], "labels": ["x", 7]}]
    record = table(tmp_path, WordLabels, rows)[0]
    assert record["tokens"].tolist() == bytes_of("ab c")
    assert record["labels"].tolist() == [1, -100, 0, -100]
    assert table(tmp_path, WordLabels, rows, space=False)[0]["tokens"].tolist() == bytes_of("abc")
    for labels in (["x"], "x", ["x", None], ["x", " "]):
        with pytest.raises(DataError, match=r"rows.jsonl:1"):
            table(tmp_path, WordLabels, [{"words": ["ab", "c"], "labels": labels}])


def test_an_answer_is_a_span_of_tokens(tmp_path):
    context = "é is not e"
    asked = {"context": context, "question": "?"}
    rows = [{**asked, "answer": answer, "start": context.find(answer)} for answer in ("is", "é", "")]
    found = table(tmp_path, AnswerSpans, rows)
    assert [found[row]["answer"].tolist() for row in range(3)] == [[3, 4], [0, 1], [-1, -1]]
    with pytest.raises(DataError, match="it is nowhere in it"):
        table(tmp_path, AnswerSpans, [{"context": "a", "question": "?", "answer": "b", "start": 0}])


def test_like_texts(tmp_path):
    rows = [{"text": "a", "positive": "b", "negative": "c"}]
    assert list(table(tmp_path, Similar, rows).columns) == ["text", "positive"]
    record = table(tmp_path, Similar, rows, negative="negative", positive="text")[0]
    assert [record[name].tolist() for name in ("text", "positive", "negative")] == [bytes_of(each) for each in "aac"]


@pytest.mark.parametrize("kind", ["bytes", "characters", "byte_pairs", "word_piece", "unigram", "words"])
def test_offsets_are_those_of_the_tokens(tmp_path, kind):
    """Each token spells its characters, special tokens spelt in the text included."""
    sizes = {"byte_pairs": 280, "word_piece": 80, "unigram": 340, "words": 64}
    sentence = "What 23 [SEP] sees </s> is a <|endoftext|> of some é words."
    tokenizer = {"kind": kind, **({"vocab": sizes[kind]} if kind in sizes else {})}
    rows = [{"text": f"{sentence} {n}", "value": n} for n in range(20)]
    data = Scored.parse({"paths": [write(tmp_path, *rows)], "tokenizer": tokenizer, "validation": 0.0})
    made = prepare(data, tmp_path / "cache", 1, progress=False).tokenizer
    offsets = made.offsets(sentence)
    assert len(offsets) == len(made.encode(sentence)) > 5
    assert (np.diff(offsets[:, 0]) >= 0).all()
    assert "".join(dict.fromkeys(sentence[begin:end] for begin, end in offsets if end > begin)) != ""
    covered = {place for begin, end in offsets for place in range(begin, end)}
    assert covered >= {place for place, letter in enumerate(sentence) if not letter.isspace()}
    if kind == "characters":
        assert [made.token(number) for number in made.encode(sentence)] == [sentence[begin:end] for begin, end in offsets]
    if kind == "word_piece":
        words = [(made.token(number), place) for number, place in zip(made.encode(sentence), offsets, strict=True)]
        plain = sentence.lower().replace("é", "e")  # as the tokenizer reads it
        assert all(word.removeprefix("##") == plain[slice(*place)] for word, place in words if word != "[UNK]")
    assert made.offsets("").shape == (0, 2)


def test_complexity_counts_decisions():
    code = """
def f(a, b):
    if a and b or a:
        return [x for x in a if x if not x]
    for x in a:
        while b:
            assert b if a else x
    try:
        pass
    except ValueError:
        pass
"""
    # 1, if, two operands more, two conditions, for, while, assert, the short if, except
    assert complexity(ast.parse(code)) == 1 + 1 + 2 + 2 + 1 + 1 + 1 + 1 + 1
    assert complexity(ast.parse("def f(): pass")) == 1


def test_branches_are_those_of_the_code():
    source = SOURCES["python-branches"]
    rows = itertools.islice((row for file in source.sources()[::60] for row in source.rows(file)), 100)
    values = [(2 ** number_field(row, "value"), complexity(ast.parse(text_field(row, "text")))) for row in rows]
    assert all(round(value) == counted for value, counted in values)
    assert len({counted for _, counted in values}) > 4
