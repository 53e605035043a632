"""The records that every machine has: the same each time, and what they say is so."""

from __future__ import annotations

import ast
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anyformer.data.builtin import SOURCES, longest_sound
from anyformer.data.builtin.code import Function, functions
from anyformer.data.builtin.names import alone
from anyformer.data.builtin.source import standard_library
from anyformer.data.pipes import environment
from anyformer.data.rows import RecordRow, choice_field, image_field, rows, text_field, texts_field, turns_field, whole_field
from anyformer.data.sources import find_sources
from anyformer.text import DataError

SYNTHETIC = ("spoken-digits", "spoken-digit-strings", "tones")
WORDS = [word for word in SOURCES if word not in ("digits", *SYNTHETIC)]
PRINT = """
import hashlib, itertools, json, sys
import numpy as np
from anyformer.data.builtin import SOURCES

def records(word):
    told = lambda x: hashlib.sha256(x.tobytes()).hexdigest() if isinstance(x, np.ndarray) else ascii(x)
    files = SOURCES[word].sources()[::100]
    found = [(row.where, row.values) for file in files for row in itertools.islice(SOURCES[word].rows(file), 200)]
    assert len(found) > 30
    return json.dumps(found, default=told)

def sounds(word):
    for row in itertools.islice(SOURCES[word].rows(SOURCES[word].sources()[0]), 20):
        sound = row.values["sound"]["array"]
        yield f'{row.values.get("label")} {row.values.get("text")} {len(sound)} {hashlib.sha256(sound.tobytes()).hexdigest()}'

def everything(words, synthetic):
    return [*map(records, words), *itertools.chain.from_iterable(map(sounds, synthetic))]

if __name__ == "__main__":
    print(json.dumps(everything(*json.loads(sys.argv[1]))))
"""
"""What the first records of some files say, and of synthetic sounds the first twenty of each word, by their bytes."""


def some(word: str) -> list[RecordRow]:
    """The records of some of the files."""
    found = [row for source in SOURCES[word].sources()[::25] for row in rows(source)]
    assert len(found) > 30
    return found


def test_every_word_has_a_sentence() -> None:
    for word, source in SOURCES.items():
        assert source.word == word
        assert source.sentence.endswith(".")


def test_the_same_records_and_sounds_in_another_process() -> None:
    """Which orders sets otherwise: its seed of hashes is another one than that of this process."""
    here: dict[str, Any] = {"__name__": "here"}
    exec(PRINT, here)
    first = here["everything"](WORDS, SYNTHETIC)
    seed = "6" if os.environ.get("PYTHONHASHSEED") != "6" else "5"
    command = [sys.executable, "-c", PRINT, json.dumps([WORDS, SYNTHETIC])]
    said = subprocess.run(command, check=True, capture_output=True, env=environment(PYTHONHASHSEED=seed)).stdout
    assert json.loads(said) == first
    sounds = first[len(WORDS) :]
    assert len(set(sounds)) == len(sounds) == 60
    assert sounds[13].startswith("3 three ")
    assert len(sounds[21].split()) > 4


def test_functions_are_taken_apart_without_loss() -> None:
    """The parts of a function are those of its syntax tree."""
    tested = 0
    for source in standard_library()[::30]:
        whole = {
            node.lineno: node
            for node in ast.walk(ast.parse(source.path.read_bytes()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for function in functions(source):
            node = whole[function.line]
            if ast.get_docstring(node) is not None:
                assert ast.get_docstring(node) == function.docstring
                node.body = node.body[1:]
            node.decorator_list = []
            assert ast.unparse(ast.parse(function.code).body[0]) == ast.unparse(node), (source.path, function.name)
            assert function.short == node.name
            tested += 1
    assert tested > 200


@pytest.mark.parametrize("docstring", ["", '    """Add two\n    numbers."""\n'])
def test_a_body_begins_after_the_signature_and_the_docstring(tmp_path: Path, docstring: str) -> None:
    path = tmp_path / "sums.py"
    path.write_text(f"def add(\n    a, b\n):\n{docstring}    total = a + b\n    return total\n", encoding="utf-8")
    (source,) = find_sources([str(path)])
    (found,) = functions(source)
    assert found.signature == "def add(\n    a, b\n):\n"
    assert found.body == "    total = a + b\n    return total\n"
    assert found.docstring == ("Add two\nnumbers." if docstring else "")


def test_pairs() -> None:
    for pair, back in zip(some("python-docstrings"), some("python-summaries"), strict=True):
        assert pair.where == back.where
        assert text_field(pair, "target") == text_field(back, "source")
        assert text_field(pair, "source").startswith(text_field(back, "target"))
        assert text_field(pair, "source") not in text_field(pair, "target")
        assert len(text_field(back, "target").split()) >= 2
        assert len(text_field(pair, "target")) <= 2001


def test_words_in_another_order_are_the_same_words() -> None:
    judged = {row.values["prompt"]: row.values for row in some("python-judgements")}
    for row in some("python-word-order"):
        chosen, rejected = (row.values[name] for name in ("chosen", "rejected"))
        assert chosen != rejected
        assert sorted(chosen.split()) == sorted(rejected.split())
        one = judged[row.values["prompt"]]
        assert one["completion"] in (chosen, rejected)
    assert {each["label"] for each in judged.values()} == {True, False}


def test_preferences_differ() -> None:
    for row in some("python-preferences"):
        assert text_field(row, "chosen.0.content") != text_field(row, "rejected.0.content")
        assert text_field(row, "prompt.0.content").lstrip().startswith(("def ", "async def "))


def test_similar_ones_are_told_apart() -> None:
    for _, group in itertools.groupby(some("python-similar"), lambda row: row.where.rpartition(":")[0]):
        sentences = [text_field(row, "text") for row in group]
        assert len(set(sentences)) == len(sentences)


def test_chats_take_turns_and_some_have_two() -> None:
    chats = [turns_field(row, "messages") for row in some("python-questions")]
    assert {len(chat) for chat in chats} == {2, 4}
    for chat in chats:
        assert [turn["role"] for turn in chat] == ["user", "assistant"] * (len(chat) // 2)


def test_modules_are_the_twenty_largest() -> None:
    sources = SOURCES["python-modules"].sources()
    assert len({row.values["label"] for source in sources for row in itertools.islice(rows(source), 1)}) == 20
    for row in some("python-modules"):
        assert "\n" in text_field(row, "text")
        assert choice_field(row, "label")
        path, _, line = row.where.rpartition(":")
        begins = "\n".join(Path(path).read_text(encoding="utf-8").split("\n")[int(line) - 1 :])
        assert begins.lstrip("\n").startswith(text_field(row, "text")), row.where


def test_labels_of_names_are_those_of_the_tree(tmp_path: Path) -> None:
    expected = {
        "import os.path as p": "keyword module operator module keyword module",
        "class C(B, metaclass=M):": "keyword class operator variable operator argument operator variable operator operator",
        "  def f(a, *, b=1):": "keyword function operator parameter operator operator operator parameter operator number "
        "operator operator",
        "    return g(a, k=x.y.z('é'))": "keyword call operator variable operator argument operator variable operator "
        "attribute operator call operator string operator operator",
        "é = x.é + True": "variable operator variable operator attribute operator keyword",
    }
    path = tmp_path / "a.py"
    path.write_text("\n".join(expected) + "\nf(\n    1, 2\n)\n")
    *found, last = list(SOURCES["python-names"].rows(find_sources([str(path)])[0]))
    assert ["".join(texts_field(row, "words")) for row in found] == ["".join(line.split()) for line in expected]
    assert [" ".join(texts_field(row, "labels")) for row in found] == list(expected.values())
    assert last.where == f"{path}:6", "a line of code is where it begins"


def test_names_have_a_label_each() -> None:
    for row in some("python-names"):
        assert len(texts_field(row, "words")) == len(texts_field(row, "labels"))
    assert len(alone()) > 100
    assert len({source.path.parent for source in alone()}) == 1, "none is of a package"


def test_answers_stand_where_they_are_said_to() -> None:
    questions = set()
    for row in some("python-spans"):
        context, answer, start = text_field(row, "context"), text_field(row, "answer"), whole_field(row, "start")
        assert context[start : start + len(answer)] == answer
        questions.add(" ".join(text_field(row, "question").split()[:3]))
        tree = ast.parse(context).body[0]
        if row.values["question"] == "What does it return?":
            returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value]
            assert [ast.unparse(value) for value in returned] == [ast.unparse(ast.parse(f"({answer})").body[0].value)]
    assert len(questions) >= 4


def test_the_places_of_answers_count_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("def f(é, b='ü'):\n    'Says.'\n    å = 'ö' + é\n    return g('日', å)\n")
    found = {row.values["question"]: row.values for row in SOURCES["python-spans"].rows(find_sources([str(path)])[0])}
    expected = {
        "What is the first argument?": "é",
        "What is the default of b?": "'ü'",
        "What does it return?": "g('日', å)",
        "What is assigned to å?": "'ö' + é",
    }
    assert {question: values["answer"] for question, values in found.items()} == expected
    for values in found.values():
        assert values["context"][values["start"] :].startswith(values["answer"])


def test_answers_have_eighty_characters_at_most(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    fits, long = "a" * 80, "b" * 81
    path.write_text(f"def f(x):\n    'Says.'\n    y = {long}\n    return {fits}\n")
    found = {row.values["question"]: row.values["answer"] for row in SOURCES["python-spans"].rows(find_sources([str(path)])[0])}
    assert found == {"What is the first argument?": "x", "What does it return?": fits}


def test_the_prose_of_docstrings() -> None:
    def told(docstring: str) -> Function:
        return Function(1, "m.f", "f", "", "def f():\n", "    return 1\n", docstring)

    function = told("Return the root, e.g. of 2.\nIt is real. Not more.\n\nMore.")
    assert function.paragraph == "Return the root, e.g. of 2. It is real. Not more."
    assert function.sentence == "Return the root, e.g. of 2."
    assert function.told
    for docstring in ("", "Short one", ">>> f() is an example", "f() -> int of it", "Arguments are as follows:"):
        assert not told(docstring).told, docstring


def test_digits() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    theirs = datasets.load_digits()
    ours = list(rows("digits"))
    assert len(ours) == 1797
    for row, pixels, digit in zip(ours, theirs.images, theirs.target, strict=True):
        assert choice_field(row, "label") == str(digit)
        image = image_field(row, "image", 1, 8, 8)
        assert (image == pixels.astype(int) * 255 // 16).all()


def test_digits_without_scikit_learn_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"digits: .* scikit-learn, which is not here: pip install 'anyformer\[data\]'"):
        list(rows("digits"))


def test_sounds_of_several_words_are_as_long_as_the_longest() -> None:
    """The shorter limit would refuse the sounds of the other word."""
    one, several = SOURCES["spoken-digits"].seconds, SOURCES["spoken-digit-strings"].seconds
    assert one is not None and several is not None and one < several  # noqa: PT018
    for paths, seconds in (
        (["spoken-digits"], one), (["spoken-digits", "spoken-digit-strings"], several),
        (["spoken-digits", "tones"], 30.0), (["spoken-digits", "file.wav"], 30.0), ([], 30.0),
    ):  # fmt: skip
        assert longest_sound(paths, 30.0) == seconds, paths
    assert longest_sound(["spoken-digit-strings"], 1.0) == 1.0
