"""Plain data out of text that somebody else wrote: one reader of JSON and of TOML, bounded in size, depth and numbers."""

from __future__ import annotations

import json
import math
import os
import re
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

BOM = "\ufeff"
"""The mark that some programs begin a file with."""
LARGEST = 64 * 10**6
"""Characters of a JSON text: twice those of the largest published `tokenizer.json`."""
LARGEST_TOML = 2 * 10**6
"""Characters of a TOML text, whose parser reads about half a million a second."""
DEEPEST = 100
"""Lists and tables inside one another."""
MOST = 3 * 10**6
"""Values of a JSON text, of which each takes up to 110 bytes."""
LONGEST_NAME = 100
"""Parts of a dotted name: the parser's time grows with their square."""
_LONG_NAME = re.compile(rf"""(?<![\w"'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{LONGEST_NAME}}}""")


class ForeignError(ValueError):
    """What a foreign text has that is not read; the message is the reason alone."""


def json_data(text: str | bytes, *, finite: bool = True, table: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Plain data from JSON in UTF-8, with or without a mark before it; a `ValueError` says what is wrong.

    `finite`: numbers are finite, as the standard says (`Infinity` and `1e400` are not). `table`: makes a table of its pairs.
    """
    text = _decoded(text)
    if len(text) > LARGEST:
        raise ForeignError(f"{len(text):,} characters, and at most {LARGEST:,} are read")
    if text.count(",") + text.count("[") + text.count("{") > MOST:
        raise ForeignError(f"more than {MOST:,} values")
    numbers: dict[str, Any] = {"parse_constant": _not_finite, "parse_float": _finite} if finite else {}
    try:
        data = json.loads(text, object_pairs_hook=table, **numbers)
    except RecursionError:
        raise _too_deep() from None
    check_depth(data)
    return data


def toml_data(text: str | bytes) -> dict[str, Any]:
    """Plain data from TOML in UTF-8, with or without a mark before it; a `ValueError` says what is wrong."""
    text = _decoded(text)
    if len(text) > LARGEST_TOML:
        raise ForeignError(f"{len(text):,} characters, and at most {LARGEST_TOML:,} are read")
    if _LONG_NAME.search(text):
        raise ForeignError(f"a name of more than {LONGEST_NAME} parts")
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise _too_deep() from None
    check_depth(data)
    return data


def check_depth(data: Any) -> None:
    """Refuse lists and tables that stand deeper inside one another than `DEEPEST`."""
    level, depth = [data], 0
    while level := [inner for each in level if isinstance(each, dict | list) for inner in _values(each)]:
        depth += 1
        if depth > DEEPEST:
            raise _too_deep()


def read_foreign(path: Path) -> str:
    """The text of a regular file in UTF-8, without a mark before it; raises `OSError`, or a `ValueError` that says what is
    wrong."""
    with open(path, "rb", opener=_without_waiting) as file:
        return text_in(file)


def read_json(path: Path) -> Any:
    """Plain data from a JSON file, in which numbers may be infinite, or none; raises as `read_foreign` does."""
    return json_data(read_foreign(path), finite=False)


def text_in(file: BinaryIO) -> str:
    """The text of an open file of at most `LARGEST` bytes."""
    content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ForeignError(f"more than {LARGEST:,} bytes")
    return _decoded(content)


def _without_waiting(name: str, flags: int) -> int:
    """Open a regular file: a pipe would wait for its writer, and a device may have no end."""
    handle = os.open(name, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise ForeignError("is a directory" if stat.S_ISDIR(mode) else "is no regular file")
    return handle


def _decoded(text: str | bytes) -> str:
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise ForeignError(f"not UTF-8 (0x{error.object[error.start]:02x} at byte {error.start:,})") from None
    return text.removeprefix(BOM)


def _values(each: dict[str, Any] | list[Any]) -> Any:
    return each.values() if isinstance(each, dict) else each


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _not_finite(digits)


def _not_finite(word: str) -> NoReturn:
    raise ForeignError(f"{word[:40]} is no finite number")


def _too_deep() -> ForeignError:
    return ForeignError(f"nested too deeply: more than {DEEPEST} lists and tables inside one another")
