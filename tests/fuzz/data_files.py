"""Cases of data: files of text and of records that are damaged, far larger than they look, or other than their names say."""

from __future__ import annotations

import copy
import csv
import io
import json
import os
import random
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from anyformer.data import Bytes, Data, prepare
from anyformer.data.reading import SourceFacts, check, read
from anyformer.data.recognising import recognised
from anyformer.data.rows import rows
from anyformer.data.sources import find_sources
from data.texts import PACK
from fuzz.damage import damaged
from fuzz.guard import place
from fuzz.kind import Case, Kind
from fuzz.mutate import HOSTILE, mutated

RECORDS: tuple[dict[str, Any], ...] = (
    {"text": "one text of words"},
    {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]},
    {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]},
    {"instruction": "say", "input": "this", "output": "that"},
    {"prompt": "a", "completion": "b"},
    {"prompt": "a", "chosen": "b", "rejected": "c"},
    {"prompt": "a", "answer": "b", "system": "c"},
    {"source": "a", "target": "b"},
    {"text": "a", "label": "b"},
    {"text": "a", "positive": "b"},
    {"words": ["a", "b"], "labels": ["x", "y"]},
    {"image": "../outside/image.png", "label": "b"},
)
KINDS_OF_DATA: tuple[dict[str, Any], ...] = (
    {"kind": "text"}, {"kind": "chats"}, {"kind": "chats", "messages": "conversations"}, {"kind": "prompts"},
    {"kind": "completions"}, {"kind": "preferences"}, {"kind": "pairs"}, {"kind": "labelled"}, {"kind": "similar"},
    {"kind": "word_labels"}, {"kind": "images", "height": 8, "width": 8},
)  # fmt: skip
ENDINGS = ("jsonl", "jsonl", "jsonl", "json", "csv", "tsv", "parquet", "parquet", "txt", "md")
LONG = "x" * 1_000_000
LARGE: dict[str, Callable[[], bytes]] = {
    "line": lambda: b'{"text": "%s"}' % (b"x" * 40_000_000),
    "line_of_signs": lambda: '{"text": "\U0001f600'.encode() + b"x" * 30_000_000 + b'"}',
    "values": lambda: b'{"text": "x", "a": [' + b"[]," * 8_000_000 + b"[]]}",
    "tables": lambda: b'{"text": "x", "a": [' + b'{"a":{}},' * 900_000 + b"{}]}",
    "numbers": lambda: b'{"text": "x", "a": ' + b"9" * 5_000_000 + b"}",
    "open_quote": lambda: b'text,label\n"' + b"x,\n" * 12_000_000,
    "cells": lambda: b"text,label\n" + b"," * 20_000_000,
    "names": lambda: b",".join(b"%x" % number for number in range(2_000_000)),
    "list": lambda: b"[" + b'{"text": "x"},' * 300_000 + b'{"text": "x"}]',
    "spaces": lambda: b"[" + b" " * 40_000_000 + b'{"text": "x"}]',
    "one_object": lambda: b'[{"text": "' + b"x" * 40_000_000 + b'"}]',
    "lines": lambda: b"\n" * 20_000_000,
    "zeros": lambda: bytes(40_000_000),
    "deep": lambda: b'{"a":' * 2_000_000,
}
"""Contents of many megabytes, each made when it is first wanted."""


def _often(count: int) -> Any:
    """A long text so often, in the memory of one."""
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(list(bytes(count)), pyarrow.uint8()).cast("int32"), [LONG])


TABLES: dict[str, Callable[[], dict[str, Any]]] = {
    "often": lambda: {"text": _often(4000)},
    "lists": lambda: {"text": pyarrow.ListArray.from_arrays(list(range(0, 4001, 100)), _often(4000))},
    "one_list": lambda: {
        "text": ["x"],
        "a": pyarrow.ListArray.from_arrays([0, 20_000_000], pyarrow.nulls(20_000_000, "int64")),
    },
    "nulls": lambda: {"text": pyarrow.nulls(50_000_000)},
    "rows": lambda: {"text": ["x"] * 2_000_000},
    "long": lambda: {"text": ["a" * 50_000_000]},
    "two_long": lambda: {"text": ["a" * 40_000_000, "b" * 40_000_000]},
    "columns": lambda: {f"c{number}": ["x"] for number in range(2000)},
    "binary": lambda: {"text": [b"\xff\xfe"], "label": [5]},
    "dates": lambda: {"text": pyarrow.array([10**12], type=pyarrow.timestamp("s"))},
    "half": lambda: {"text": pyarrow.array([b"\xff"]).view(pyarrow.string())},
}
LINES = (
    b"\xef\xbb\xbf", b"\0", b"\xff\xfe", b"[" * 50_000, b'{"text":' * 50_000, b'{"text": "\\ud800"}', b'{"text": NaN}', b"null",
    b'{"text": "a", "text": "b"}', b'{"text": 1e999}', b'{"": ""}', b"{}", b"[]", b'"', b"\x1b[2J\x1b]0;x\x07", b"\r", b'""""',
    b",,,,", b'{"text": "\\u0000"}', b'{"text": ""}', b'{"text": " "}', b"5", b'{"image": "/etc/passwd", "label": "x"}',
    b"\xf0\x9f", b"a" * 100_000,
)  # fmt: skip
NAMES = (
    b"data",
    b"data",
    b"data",
    b"data",
    b"caf\xe9",
    b"n" * 200,
    b"a b",
    b"-x",
    b"\x1b[2Jx",
    "日本".encode(),
    b"x\ny",
    b"*",
    b"..x",
)


def data_file(seed: int) -> Case:
    """One file or directory of data, read as text, as records, or prepared."""
    draw = random.Random(seed)
    ending = draw.choice(ENDINGS)
    content = _content(ending, draw)
    packed = draw.choice(("", "", "", "", *PACK)) if len(content) < 2**20 or draw.random() < 0.3 else ""
    if packed:
        content = PACK[packed](content)
        content = damaged(content, draw) if draw.random() < 0.3 and len(content) < 2**20 else content
    name = os.fsdecode(draw.choice(NAMES) + f".{ending}{packed}".encode())
    way = draw.choice((_text, _records, _prepared, _prepared, _recognised))
    described = draw.choice(KINDS_OF_DATA)
    whole, beside = draw.random() < 0.3, draw.random() < 0.1

    def run() -> None:
        with place({"image.png": b"secret", "x.jsonl": b"{}"}) as inside:
            folder = inside / "in"
            folder.mkdir()
            (folder / name).write_bytes(content)
            if beside:
                os.mkfifo(folder / "pipe.jsonl")
                (folder / "out").symlink_to("../../outside")
                (folder / "itself").symlink_to(folder)
                (folder / "gone.jsonl").symlink_to("nowhere")
            way(str(folder if whole else folder / name), described, inside)

    return run


def _text(path: str, described: dict[str, Any], inside: Path) -> None:
    for source in find_sources([path], ["*"]):
        found = check(source, "text")
        for _ in read(found, "text") if isinstance(found, SourceFacts) else ():
            pass


def _records(path: str, described: dict[str, Any], inside: Path) -> None:
    for _ in rows(path):
        pass


def _prepared(path: str, described: dict[str, Any], inside: Path) -> None:
    data = Data.kinds[described["kind"]].parse({**described, "paths": [path], "tokenizer": Bytes().plain(), "validation": 0.0})
    prepare(data, inside / "cache", workers=1, progress=False).summary()


def _recognised(path: str, described: dict[str, Any], inside: Path) -> None:
    recognised([path])
    _records(path, described, inside)


def _content(ending: str, draw: random.Random) -> bytes:
    if draw.random() < 0.04:
        return _large(draw.choice(sorted(LARGE))) if ending != "parquet" else _table(draw.choice(sorted(TABLES)))
    if ending == "parquet" and draw.random() < 0.1:
        return _table(draw.choice(("columns", "binary", "dates", "half")))
    record = draw.choice(RECORDS)
    records = [mutated(record, draw) if draw.random() < 0.3 else record for _ in range(draw.choice((1, 3, 20)))]
    if draw.random() < 0.2:
        records.insert(draw.randrange(len(records) + 1), {draw.choice(sorted(record)): draw.choice(HOSTILE)})
    content = WRITERS[ending](copy.deepcopy(records))
    if draw.random() < 0.4:
        content = damaged(content, draw)
    for _ in range(draw.choice((0, 0, 1, 2))) if ending != "parquet" else ():
        cut = content.find(b"\n", draw.randrange(len(content) + 1)) + 1
        content = content[:cut] + draw.choice(LINES) + draw.choice((b"\n", b"\r\n", b"", b"\n\n")) + content[cut:]
    return content


@cache
def _large(name: str) -> bytes:
    return LARGE[name]()


@cache
def _table(name: str) -> bytes:
    return _parquet_of(pyarrow.table(TABLES[name]()))


def _parquet_of(table: Any) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, compression="zstd", store_schema=False)
    return file.getvalue()


def _json_lines(records: list[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _parquet(records: list[Any]) -> bytes:
    """A table of the records; of their texts where Arrow finds no type for all."""
    try:
        return _parquet_of(pyarrow.Table.from_pylist(records))
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
        return _parquet_of(pyarrow.table({"text": [json.dumps(record) for record in records]}))


def _separated(records: list[Any], delimiter: str) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter)
    tables = [record for record in records if isinstance(record, dict)]
    writer.writerow(list(tables[0]) if tables else ["text"])
    for record in tables:
        with suppress(csv.Error):
            writer.writerow(record.values())
    return file.getvalue().encode("utf-8", "replace")


def _running(records: list[Any]) -> bytes:
    return "\n".join(map(repr, records)).encode("utf-8", "replace")


WRITERS: dict[str, Callable[[list[Any]], bytes]] = {
    "jsonl": _json_lines,
    "json": lambda records: json.dumps(records).encode(),
    "csv": partial(_separated, delimiter=","),
    "tsv": partial(_separated, delimiter="\t"),
    "parquet": _parquet,
    "txt": _running,
    "md": _running,
}
KINDS = {"data files": Kind(data_file, 2_000, 100)}
