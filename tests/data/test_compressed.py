"""Text and records in Parquet and in compressed files; and what a file is that is neither."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from anyformer.data import Bytes, Split, Text, compressed, prepare
from anyformer.data.compressed import suffix_of
from anyformer.data.reading import Skipped, check
from anyformer.data.rows import rows
from anyformer.data.sources import find_sources
from anyformer.text import DataError
from data.texts import PACK

TEXTS = ["one text", "another\nof two lines", "é and 日"]


def written(place: Path, name: str) -> Path:
    path = place / name
    rows = [{"text": text} for text in TEXTS]
    if suffix_of(path) == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return path
    content = "".join(json.dumps(row) + "\n" for row in rows) if ".jsonl" in name else "\n".join(TEXTS)
    path.write_bytes(PACK[path.suffix if path.suffix in PACK else ""](content.encode()))
    return path


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", *(f"a.jsonl{end}" for end in PACK if end)])
def test_each_row_is_a_document(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = written(folder, name)
    for place in (path, folder):
        data = Text(paths=(str(place),), tokenizer=Bytes(), validation=0.0)
        corpus = prepare(data, tmp_path / "cache", 1, progress=False)
        assert isinstance(corpus.train, Split)
        end = corpus.tokenizer.end
        assert corpus.train.tokens[:].tolist() == [token for text in TEXTS for token in (*text.encode(), end)]
    assert [row.values["text"] for row in rows(path)] == TEXTS
    assert [row.values["text"] for row in rows(folder)] == TEXTS


@pytest.mark.parametrize("end", [end for end in PACK if end])
def test_a_compressed_text_is_one_document(tmp_path: Path, end: str) -> None:
    path = written(tmp_path, f"a.txt{end}")
    corpus = prepare(Text(paths=(str(path),), tokenizer=Bytes(), validation=0.0), tmp_path / "cache", 1, progress=False)
    assert isinstance(corpus.train, Split)
    assert bytes(corpus.train.tokens[:-1].tolist()) == "\n".join(TEXTS).encode()
    assert corpus.train.bytes == len("\n".join(TEXTS).encode())


@pytest.mark.parametrize("end", [".gz", ".bz2", ".xz", ".zst"])
def test_a_cut_file_is_named(tmp_path: Path, end: str) -> None:
    path = written(tmp_path, f"a.jsonl{end}")
    path.write_bytes(path.read_bytes()[:-10])
    for read in (lambda: check(find_sources([str(path)])[0], "text"), lambda: list(rows(path))):
        with pytest.raises(DataError, match=rf"a\.jsonl\{end}: cannot be (decompressed|read)"):
            read()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a.parquet", r"is a Parquet file, by its first bytes, and no UTF-8 text: name it \.parquet"),
        ("a.jsonl.gz", r"is compressed by gzip, .* let its name end in \.gz"),
        ("a.txt.zst", r"is compressed by Zstandard, .* let its name end in \.zst"),
    ],
)
def test_a_file_by_another_name_is_known_by_its_first_bytes(tmp_path: Path, name: str, said: str) -> None:
    path = written(tmp_path, name).rename(tmp_path / "other.txt")
    with pytest.raises(DataError, match=said):
        check(find_sources([str(path)])[0], "text")
    assert isinstance(check(find_sources([str(tmp_path)])[0], "text"), Skipped)


def test_a_table_without_the_field_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet#0: has no field 'content', only 'text'; set `field`"):
        check(find_sources([str(path)])[0], "content")


@pytest.mark.parametrize("end", [end for end in PACK if end])
def test_a_small_file_that_stands_for_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(compressed, "_PLAIN", 2**18)
    for name, content in (("a.txt", b"x" * 2**20), ("b.jsonl", b'{"text": "x"}\n' * 2**16)):
        path = tmp_path / f"{name}{end}"
        path.write_bytes(PACK[end](content))
        with pytest.raises(DataError, match="stands for more than 256 times as many bytes as it has"):
            check(find_sources([str(path)])[0], "text")
