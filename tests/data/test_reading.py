from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anyformer.data import BytePairs, Skipped, lines
from anyformer.data.reading import SourceFacts, check, cut, read
from anyformer.data.rows import rows
from anyformer.data.sources import SourceFile, find_sources
from anyformer.data.vocabulary import make_tokenizer
from anyformer.text import DataError
from data.texts import PACK
from effort import examples


def _source(path: Path, content: bytes, explicit: bool = True) -> SourceFile:
    path.write_bytes(content)
    return SourceFile(path, explicit, len(content), path.stat().st_mtime_ns)


def _facts(source: SourceFile) -> SourceFacts:
    facts = check(source, "text")
    assert isinstance(facts, SourceFacts)
    return facts


@examples(60)
@given(text=st.text(min_size=1, max_size=300), size=st.integers(1, 64))
@example(text="a\r\n\r\nb\r\n", size=3)
def test_pieces_join_to_the_text_and_stay_small(tmp_path_factory: pytest.TempPathFactory, text: str, size: int) -> None:
    text = text.replace("\0", "").removeprefix("\ufeff")  # refused, and left out, elsewhere
    if not text:
        return
    facts = _facts(_source(tmp_path_factory.mktemp("read") / "a.txt", text.encode()))
    pieces = list(read(facts, "text", size))
    assert "".join(piece.text for piece in pieces) == text
    assert all(0 < len(piece.text) <= size for piece in pieces)
    assert [piece.ends for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert (facts.characters, facts.bytes) == (len(text), len(text.encode()))


def test_cuts_are_where_tokenizers_cut() -> None:
    text = "def f():\n    return 1\n\n\ndef g():\n    if x:\n        y()\n"
    assert text[: cut(text)] == "def f():\n    return 1\n\n\n"
    assert cut("one two three") == len("one two ")
    assert cut("one\n  two three") == len("one\n"), "a line end, even before an indented line, goes before a space"
    assert cut("unbroken") == len("unbroken")
    tokenizer = make_tokenizer(BytePairs(vocab=400), lambda: [text] * 9, list)
    place = cut(text)
    assert tokenizer.encode(text[:place]) + tokenizer.encode(text[place:]) == tokenizer.encode(text)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"text\0more", "binary (a NUL at byte 4)"),
        (b"x" * 3_000_000 + b"\xff" + b"y", "not UTF-8 (0xff at byte 3,000,000)"),
        ("é".encode()[:1] + b"a", "not UTF-8 (0xc3 at byte 0)"),
        (b"x" * (2**20 - 1) + "é".encode()[:1], "not UTF-8 (0xc3 at byte 1,048,575)"),
        ("text".encode("utf-16"), "binary"),
    ],
)
def test_unfit_files_are_skipped_if_found_and_refused_if_named(tmp_path: Path, content: bytes, reason: str) -> None:
    found = check(_source(tmp_path / "a.txt", content, explicit=False), "text")
    assert isinstance(found, Skipped)
    assert found.path == str(tmp_path / "a.txt")
    assert reason in found.reason
    with pytest.raises(DataError, match=r"a\.txt: .*leave it out"):
        check(_source(tmp_path / "a.txt", content, explicit=True), "text")


@pytest.mark.parametrize("content", [b'{"text": "a\0"}', b'{"text": "\xff"}'])
def test_json_lines_that_are_no_text_are_skipped_if_found_and_refused_if_named(tmp_path: Path, content: bytes) -> None:
    found = check(_source(tmp_path / "a.jsonl", b'{"text": "x"}\n' + content, explicit=False), "text")
    assert isinstance(found, Skipped)
    assert "line 2" in found.reason
    with pytest.raises(DataError, match=r"a\.jsonl: .*line 2.*leave it out"):
        check(_source(tmp_path / "a.jsonl", b'{"text": "x"}\n' + content), "text")


@pytest.mark.parametrize("pack", PACK)
def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path, pack: str) -> None:
    """Running text, documents in lines, records: the same with it and without."""
    for name, content in (
        ("a.txt", b"one"),
        ("a.jsonl", b'{"text": "one"}'),
        ("a.json", b'[{"text": "one"}]'),
        ("a.csv", b"text\none"),
    ):
        path = tmp_path / f"{name}{pack}"
        path.write_bytes(PACK[pack](b"\xef\xbb\xbf" + content))
        if name != "a.txt":
            assert [dict(row.values) for row in rows(path)] == [{"text": "one"}], name
        if name in ("a.txt", "a.jsonl"):
            (source,) = find_sources([str(path)])
            assert [piece.text for piece in read(_facts(source), "text")] == ["one"], name


def test_a_line_of_text_has_the_limit_of_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LONGEST", "MOST_PARTS"):
        monkeypatch.setattr(lines, name, 20)
    with pytest.raises(DataError, match=r"a\.jsonl:2: a record of more than 20 bytes"):
        check(_source(tmp_path / "a.jsonl", b'{"text": "x"}\n{"text": "%s"}' % (b"x" * 40)), "text")


def test_blank_lines_end_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLANK", 3)
    assert _facts(_source(tmp_path / "a.jsonl", b'\n\n\n{"text": "x"}\n\n\n\n')).documents == 1
    with pytest.raises(DataError, match=r"a\.jsonl:5: more than 3 blank lines"):
        check(_source(tmp_path / "a.jsonl", b'{"text": "x"}' + b"\n" * 9), "text")


def test_a_character_across_blocks_is_read(tmp_path: Path) -> None:
    text = "x" * (2**20 - 1) + "é日" * 10
    assert _facts(_source(tmp_path / "a.txt", text.encode())).characters == len(text)


def test_each_json_line_is_a_document(tmp_path: Path) -> None:
    texts = ["one", "two\nlines\u2028and \0 more", "", "日本"]
    lines = "\n\n".join(json.dumps({"id": 1, "text": text}) for text in texts)
    facts = _facts(_source(tmp_path / "a.jsonl", lines.encode()))
    assert (facts.documents, facts.empty) == (3, 1)
    pieces = list(read(facts, "text"))
    assert [piece.text for piece in pieces] == [text for text in texts if text]
    assert all(piece.ends for piece in pieces)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"text": "half', "2: not valid JSON"),
        (b'{"body": "x"}', "2: has no field 'text', only 'body'; set `field`"),
        (b'["x"]', "2: should be a JSON object"),
        (b'{"text": 5}', r"2: field 'text' should be text, got 5 \(int\)"),
        (rb'{"text": "\ud800"}', "2: .*surrogate"),
        (b"[" * 100_000, "2: not valid JSON"),
    ],
)
def test_wrong_json_lines_are_refused_even_in_directories(tmp_path: Path, line: bytes, said: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "fine"}\n' + line + b"\n")
    with pytest.raises(DataError, match=r"a\.jsonl:" + said):
        check(find_sources([str(tmp_path)])[0], "text")


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_every_byte_that_is_read_is_told(tmp_path: Path, name: str) -> None:
    content = b"".join(b'{"text": "line %d"}\n\n' % number for number in range(5))
    told: list[int] = []
    check(_source(tmp_path / name, content), "text", told.append)
    assert sum(told) == len(content)


def test_a_file_that_changes_between_check_and_reading_is_refused(tmp_path: Path) -> None:
    facts = _facts(_source(tmp_path / "a.txt", b"fine text"))
    (tmp_path / "a.txt").write_bytes(b"fine\xff\xfe")
    with pytest.raises(DataError, match="changed while it was being read"):
        list(read(facts, "text"))
