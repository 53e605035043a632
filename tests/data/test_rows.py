"""Raw records of files: every format, what is wrong with them, and how much memory they take."""

from __future__ import annotations

import csv
import json
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from anyformer.data import json_records, lines
from anyformer.data.rows import (
    BadRecord,
    RecordRow,
    Skips,
    choice_field,
    find_records,
    image_field,
    number_field,
    rows,
    text_field,
    texts_field,
    turns_field,
    whole_field,
)
from anyformer.text import DataError
from effort import examples

cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=12)
tables = st.lists(st.tuples(cells.filter(bool), cells), min_size=1, max_size=5)


def read(path: Path, **options: object) -> list[tuple[str, dict[str, object]]]:
    return [(row.where.removeprefix(str(path)), dict(row.values)) for row in rows(path, **options)]


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@examples(40)
@given(table=tables)
def test_every_format_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, table: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("formats")
    records = [{"a": first, "b": second} for first, second in table]
    write(folder, "a.jsonl", "\n\n".join(json.dumps(record, ensure_ascii=False) for record in records))
    write(folder, "a.json", b"\xef\xbb\xbf" + json.dumps(records).encode())
    with (folder / "a.csv").open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows([("a", "b"), *table])
    for name in ("a.jsonl", "a.json", "a.csv"):
        assert [values for _, values in read(folder / name)] == records, name
    plain = [record for record in records if not any(mark in f"{record['a']}{record['b']}" for mark in "\t\n")]
    write(folder, "a.tsv", "a\tb\n" + "".join(f"{record['a']}\t{record['b']}\n" for record in plain))
    assert [values for _, values in read(folder / "a.tsv")] == plain


def test_where_a_record_stands(tmp_path: Path) -> None:
    assert read(write(tmp_path, "a.jsonl", '{"a": 1}\n\n{"a": 2}')) == [(":1", {"a": 1}), (":3", {"a": 2})]
    assert read(write(tmp_path, "a.json", '[{"a": 1}, {"a": 2}]')) == [("#0", {"a": 1}), ("#1", {"a": 2})]
    assert read(write(tmp_path, "a.csv", 'a,b\r\n"1\r\n2",3\r\n4,5')) == [
        (":2", {"a": "1\r\n2", "b": "3"}),
        (":4", {"a": "4", "b": "5"}),
    ]
    assert read(write(tmp_path, "a.tsv", 'a\tb\n"1\t2"\n')) == [(":2", {"a": '"1', "b": '2"'})]


MALFORMED = {
    "line.jsonl": (
        '{"a": 1}\n{"a": \n',
        r"line\.jsonl:2: not valid JSON \(Expecting value.*; every line has to be one JSON object",
    ),
    "list.jsonl": ("[1, 2]", r"list\.jsonl:1: should be a JSON object, got \[1, 2\] \(list\)"),
    "nul.jsonl": (b'{"a": "\0"}', r"nul\.jsonl:1: binary"),
    "bytes.jsonl": (b'{"a": "\xff"}', r"bytes\.jsonl:1: not UTF-8 \(0xff at byte 7 of it\)"),
    "deep.jsonl": ("[" * 100_000, r"deep\.jsonl:1: not valid JSON"),
    "item.json": ('[{"a": 1}, 5]', r"item\.json#1: should be a JSON object, got 5 \(int\)"),
    "short.csv": ("a,b\n1,2\n3\n", r"short\.csv:3: 1 fields, and the header has 2"),
    "quote.csv": ('a,b\n1,"2"3\n', r"quote\.csv:2: .*expected after"),
    "open.csv": ('a,b\n1,"2\n', r"open\.csv:2: unexpected end of data"),
    "bytes.csv": (b"a,b\n1,\xff\n", r"bytes\.csv:2: not UTF-8 \(0xff at byte 2 of it\)"),
    "long.tsv": ("a\tb\n1\t2\t3\n", r"long\.tsv:2: 3 fields, and the header has 2"),
}
HOPELESS = {
    "object.json": (
        '{"a": 1}',
        r"object\.json: should be a list of objects, got '\{\"a\": 1\}' \(str\); .* a \.jsonl file holds one object per line",
    ),
    "broken.json": ('[{"a": 1},\n  {]', r"broken\.json:2: not valid JSON"),
    "bytes.json": (b'["\xff"]', r"bytes\.json: not UTF-8 \(0xff at byte 2\)"),
    "behind.json": ('[{"a": 1}]\n\n{"a": 2}', r"behind\.json:3: not valid JSON \(there is more behind the list\)"),
    "between.json": ('[{"a": 1}\n {"a": 2}]', r"between\.json:2: not valid JSON \(expecting ',' or '\]' after an item\)"),
    "cut.json": ('[{"a": 1}, {"a"', r"cut\.json:1: not valid JSON"),
    "deep.json": ("[" + '{"a":' * 100_000, r"deep\.json:1: not valid JSON"),
    "nothing.json": ("", r"nothing\.json: should be a list of objects, got ''"),
    "empty.csv": ("", r"empty\.csv: the file is empty; its first row has to name the fields"),
    "twice.csv": ("a,a\n1,2\n", r"twice\.csv:1: the header \['a', 'a'\] has an empty or repeated name"),
    "header.csv": (b"a,\xff\n1,2\n", r"header\.csv:1: not UTF-8"),
    "what.txt": ("text", r"what\.txt: records are read from \.jsonl, \.json, \.csv"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_record_is_named_with_its_line_or_left_out(tmp_path: Path, name: str) -> None:
    content, message = MALFORMED[name]
    path = write(tmp_path, name, content)
    with pytest.raises(BadRecord, match=message):
        list(rows(path))
    skips = Skips(1)
    kept = list(rows(path, bad=skips.add))
    assert skips.count == 1
    assert all(isinstance(row, RecordRow) for row in kept)


@pytest.mark.parametrize("name", HOPELESS)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    content, message = HOPELESS[name]
    path = write(tmp_path, name, content)
    with pytest.raises(DataError, match=message):
        list(rows(path, bad=Skips(100).add))


def test_records_after_a_malformed_one_are_read(tmp_path: Path) -> None:
    skips = Skips(2)
    path = write(tmp_path, "a.csv", b"a,b\n1,2\n3\n4,\xff\n5,6\n")
    assert [values["a"] for _, values in read(path, bad=skips.add)] == ["1", "5"]
    assert skips.report() == ["1 record: 1 fields, and the header has 2", "1 record: not UTF-8 (0xff at byte 2 of it)"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"a": 1}\n{"text": "%s"}' % ("x" * 100)),
        ("a.json", '[{"a": 1}, {"text": "%s"}]' % ("x" * 100)),
        ("a.csv", "a,b\n1,2\n" + '"xxxxx\nxxxxx\n",' * 9),
        ("a.tsv", "a\tb\n1\t" + "x" * 100),
    ],
)
def test_a_record_has_a_limit_in_every_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str) -> None:
    """Bytes, and values: those of `[],[],...` take twenty times the memory of their text."""
    for module in (lines, json_records):
        monkeypatch.setattr(module, "LONGEST" if module is lines else "_BLOCK", 20)
    path = write(tmp_path, name, content)
    monkeypatch.setattr(lines, "MOST_PARTS", 15)
    with pytest.raises(DataError, match=rf"a\.{path.suffix[1:]}.*: a record of more than 20 bytes"):
        list(rows(path))
    monkeypatch.setattr(lines, "MOST_PARTS", 0)
    with pytest.raises(DataError, match=r": a record of more than 0 values|more than 20 bytes"):
        list(rows(path))


def test_a_record_of_many_values_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_PARTS", 50)
    many = '{"a": [' + "[]," * 60 + "[]]}"
    for name, content in (("a.jsonl", many), ("a.json", f"[{many}]"), ("a.csv", "a,b\n" + "," * 60)):
        with pytest.raises(DataError, match="a record of more than 50 values"):
            list(rows(write(tmp_path, name, content)))
    assert len(read(write(tmp_path, "b.jsonl", '{"a": [1, 2]}\n' * 60))) == 60


@examples(60)
@given(
    records=st.lists(
        st.dictionaries(
            st.text(max_size=3), st.recursive(st.text() | st.integers() | st.booleans() | st.none(), st.lists, max_leaves=8)
        ),
        max_size=6,
    ),
    block=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
)
def test_a_list_is_read_item_by_item_wherever_the_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, object]], block: int, indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("lists") / "a.json"
    path.write_text(
        json.dumps(records, ensure_ascii=False, indent=indent).encode("utf-8", "replace").decode(), encoding="utf-8"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_records, "_BLOCK", block)
        assert [values for _, values in read(path)] == json.loads(path.read_text(encoding="utf-8"))


def test_a_number_that_is_none_is_refused_where_it_is_wanted(tmp_path: Path) -> None:
    """Python's own json writes NaN; beside a text it harms nobody."""
    (row,) = rows(write(tmp_path, "a.jsonl", '{"text": "x", "score": NaN}'))
    assert text_field(row, "text") == "x"
    with pytest.raises(BadRecord, match="should be a finite number, got nan"):
        number_field(row, "score")


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_memory_and_progress_of_a_large_file(tmp_path: Path, suffix: str) -> None:
    """50 MB in less than 4 MB."""
    text = "word " * 2000
    line = f"{text},5" if suffix == "csv" else json.dumps({"text": text, "number": 5})
    path = tmp_path / f"big.{suffix}"
    with path.open("w") as file:
        file.write({"csv": "text,number\n", "json": "[", "jsonl": ""}[suffix])
        file.writelines(line + ("," if suffix == "json" and number < 4999 else "") + "\n" for number in range(5000))
        file.write("]" * (suffix == "json"))
    assert path.stat().st_size > 50e6
    seen: list[int] = []
    tracemalloc.start()
    try:
        assert sum(len(text_field(row, "text")) for row in rows(path, seen.append)) == 5000 * len(text)
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()
    assert sum(seen) == path.stat().st_size


def test_a_directory_is_read_in_order_and_each_file_once(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/2.jsonl", "a.jsonl", "b/1.jsonl"):
        write(tmp_path, name, json.dumps({"name": name}))
    write(tmp_path, "readme.txt", "not read")
    assert [row.values["name"] for row in rows(tmp_path)] == ["a.jsonl", "b/1.jsonl", "b/2.jsonl"]
    found = find_records([str(tmp_path / "b"), str(tmp_path)])
    assert [source.path.name for source in found] == ["1.jsonl", "2.jsonl", "a.jsonl"]
    assert len(find_records([str(tmp_path)], ["*.txt"])) == 1
    with pytest.raises(DataError, match=r"missing\.jsonl: no such file"):
        list(rows(tmp_path / "missing.jsonl"))


def test_parquet(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    records = [{"a": str(number), "b": [{"role": "user", "content": "é"}], "c": None} for number in range(3000)]
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(records), path, row_group_size=1000)
    seen: list[int] = []
    found = read(path, advance=seen.append)
    assert [values for _, values in found] == records
    assert found[2999][0] == "#2999"
    assert sum(seen) == path.stat().st_size
    with pytest.raises(DataError, match=r"b\.parquet: not a Parquet file that pyarrow reads"):
        list(rows(write(tmp_path, "b.parquet", path.read_bytes()[:500])))


def test_parquet_without_pyarrow_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"a\.parquet: .* read by pyarrow, which is not here: pip install 'anyformer\[data\]'"):
        list(rows(write(tmp_path, "a.parquet", "")))


@pytest.mark.parametrize(
    ("limit", "bad", "message"),
    [
        (0, 1, r"^f:0: no field; add it; or set skip_bad to the number or share"),
        (2, 3, r"^more than skip_bad = 2 records cannot be used; the first of them:\n  f:0: .*\n  f:1: .*\n  f:2: "),
        (6, 7, r"^more than skip_bad = 6 records cannot be used; the first of them:\n(  f:\d: .*\n){5}mend them"),
        (0.1, 11, r"^11 of 100 records, more than skip_bad = 0\.1 of them, cannot be used; the first of them:\n  f:0"),
    ],
)
def test_bad_records_have_a_bound(limit: float, bad: int, message: str) -> None:
    def run(count: int) -> Skips:
        skips = Skips(limit)
        for number in range(count):
            skips.add(BadRecord(f"f:{number}", "no field", "add it"))
        skips.finish(100)
        return skips

    with pytest.raises(DataError, match=message):
        run(bad)
    assert run(bad - 1).count == bad - 1


def test_a_bound_that_is_none_is_refused() -> None:
    for limit in (-1, 1.5, True):
        with pytest.raises(DataError, match="should be a number of records"):
            Skips(limit)


ROW = RecordRow(
    "f:7",
    {
        "text": "é",
        "half": "\ud800",
        "one": 1,
        "yes": True,
        "number": "2.5",
        "deep": {"inner": ["a", {"x": "found"}], "n": None},
        "a.b": "dotted",
        "words": ["a", "b"],
        "mixed": ["a", 5],
        "long": ["x" * 500],
        "chat": [{"role": "system", "content": "s"}, {"role": "user", "content": "u", "extra": 1}],
        "huge": 10**400,
    },
)


def test_fields_give_their_values() -> None:
    assert text_field(ROW, "text") == "é"
    assert text_field(ROW, "deep.inner.1.x") == "found"
    assert text_field(ROW, "a.b") == "dotted"
    assert (choice_field(ROW, "text"), choice_field(ROW, "one", ["1"]), choice_field(ROW, "yes")) == ("é", "1", "true")
    assert (number_field(ROW, "number"), number_field(ROW, "one")) == (2.5, 1.0)
    assert whole_field(ROW, "one") == 1
    assert texts_field(ROW, "words") == ["a", "b"]
    assert turns_field(ROW, "chat") == [{"role": "system", "content": "s"}, {"role": "user", "content": "u", "extra": 1}]


@pytest.mark.parametrize(
    ("check", "name", "message"),
    [
        (text_field, "txt", r"f:7: no field 'txt'; did you mean 'text'\?.*; add it, or name the field that holds it"),
        (text_field, "deep.inne", r"f:7: no field 'deep\.inne' inside 'deep', which is \{'inner'.* did you mean 'inner'"),
        (text_field, "one", r"f:7: field 'one' should be text, got 1 \(int\); write it in quotes"),
        (text_field, "deep.n", r"should be text, got None \(NoneType\)"),
        (text_field, "half", r"f:7: field 'half' has '\\ud800', half of a surrogate pair"),
        (choice_field, "deep", r"field 'deep' should name a class, got \{"),
        (lambda row, name: choice_field(row, name, ["neg", "pos"]), "text", r"field 'text' is 'é' \(str\), no known class"),
        (number_field, "text", r"field 'text' should be a finite number, got 'é' \(str\)"),
        (number_field, "yes", r"field 'yes' should be a finite number, got True \(bool\)"),
        (number_field, "huge", r"field 'huge' should be a finite number"),
        (whole_field, "number", r"field 'number' should be a whole number, got '2\.5' \(str\)"),
        (texts_field, "mixed", r"field 'mixed\.1' should be text, got 5 \(int\)"),
        (texts_field, "text", r"field 'text' should be a list of texts"),
        (turns_field, "words", r"field 'words\.0' should have a text as role and as content, got 'a' \(str\)"),
        (turns_field, "long", r"got 'x{50,60}\.\.\. \(str\)"),
        (
            lambda row, name: image_field(row, name, 1, 8, 8),
            "one",
            r"field 'one' should be the path of an image, got 1 \(int\)",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_value(check: Callable[[RecordRow, str], object], name: str, message: str) -> None:
    with pytest.raises(BadRecord, match=message):
        check(ROW, name)


def test_images_of_a_directory_by_class(tmp_path: Path) -> None:
    for label, colour in (("cat", (250, 0, 0)), ("dog", (0, 0, 250))):
        (tmp_path / label).mkdir()
        Image.new("RGB", (12, 8), colour).save(tmp_path / label / "1.png")
    Image.new("L", (8, 12), 128).save(tmp_path / "dog" / "2.JPG", format="JPEG")
    write(tmp_path / "dog", "3.png", (tmp_path / "dog" / "1.png").read_bytes()[:40])
    found = list(rows(tmp_path / "cat")) + list(rows(tmp_path / "dog" / "1.png")) + list(rows(tmp_path / "dog" / "2.JPG"))
    assert [choice_field(row, "label") for row in found] == ["cat", "dog", "dog"]
    images = [image_field(row, "image", 3, 4, 6) for row in found]
    assert all(image.shape == (3, 4, 6) and image.dtype == np.uint8 for image in images)
    assert images[0][:, 0, 0].tolist() == [250, 0, 0]
    assert images[1][:, 3, 5].tolist() == [0, 0, 250]
    assert abs(image_field(found[2], "image", 1, 4, 4).astype(int) - 128).max() <= 1
    with pytest.raises(BadRecord, match=r"3\.png: no whole image of a format that is read"):
        image_field(next(iter(rows(tmp_path / "dog" / "3.png"))), "image", 3, 4, 4)
    listed = write(tmp_path, "list.jsonl", '{"image": "cat/1.png"}\n{"image": "cat/9.png"}')
    first, second = rows(listed)
    assert image_field(first, "image", 3, 4, 6).tolist() == images[0].tolist()
    with pytest.raises(BadRecord, match=r"list\.jsonl:2: .*9\.png: no such image"):
        image_field(second, "image", 3, 4, 6)


def test_a_photograph_taken_upright_stays_so(tmp_path: Path) -> None:
    """Cameras write the turn beside the picture: 6 is a quarter to the right."""
    image = Image.fromarray(np.array([[0, 0, 0, 0], [255] * 4], np.uint8))
    turned = Image.Exif()
    turned[0x0112] = 6
    image.save(tmp_path / "a.png", exif=turned)
    (row,) = rows(tmp_path / "a.png")
    assert image_field(row, "image", 1, 4, 2)[0].tolist() == [[255, 0]] * 4


def test_an_image_keeps_its_orientation_and_its_middle() -> None:
    grid = np.zeros((1, 4, 8), np.uint8)
    grid[0, :2, 2:6] = 255
    row = RecordRow("f:1", {"image": grid})
    assert image_field(row, "image", 1, 4, 8) is grid
    cut = image_field(row, "image", 3, 4, 4)
    assert cut[:, :2].min() == 255
    assert cut[:, 2:].max() == 0
    colours = np.zeros((3, 4, 8), np.uint8)
    colours[:, :2] = np.array([10, 20, 30])[:, None, None]
    halved = image_field(RecordRow("f:1", {"image": colours}), "image", 3, 4, 4)
    assert halved[:, 0].T.tolist() == [[10, 20, 30]] * 4
    assert halved[:, 3].max() == 0


def test_reasons_come_the_most_frequent_first_and_then_by_name():
    skips = Skips(10)
    for number, reason in enumerate(["no text", "cut", "no text", "bad", "no text", "cut", "bad", "alone"]):
        skips.add(BadRecord(f"f:{number}", reason, "mend it"))
    assert skips.report() == ["3 records: no text", "2 records: bad", "2 records: cut", "1 record: alone"]
