"""The package `gguf`'s reader, with long arrays read at once and counts that are bounded: it reads each entry by itself."""

from __future__ import annotations

import importlib
import os
import re
import struct
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from anyformer.huggingface.errors import HuggingFaceError

SUFFIX = ".gguf"
MOST_KEYS, MOST_TENSORS = 10_000, 200_000
"""More than any published file has; each takes a tenth of a millisecond to read."""
WALKED = 256
"""Texts of an array of which more are passed over: the pieces of a tokenizer, which are read elsewhere or not at all."""
DAMAGED = (ValueError, IndexError, KeyError, TypeError, OverflowError, OSError, RecursionError, struct.error)
"""What reading a file that is cut off or made up ends in."""
_PIECE = re.compile(r"(.*)-\d{5}-of-(\d{5})" + re.escape(SUFFIX))


def library() -> Any:
    """The package."""
    try:
        return importlib.import_module("gguf")
    except ImportError:
        raise HuggingFaceError(
            "GGUF files are read with the package gguf, which is not installed: pip install 'anyformer[gguf]'"
        ) from None


def opened(path: Path) -> Any:
    """A reader of one file. Raises `HuggingFaceError` for what cannot be read."""
    try:
        return _reader()(path)
    except DAMAGED as error:
        raise HuggingFaceError(f"{path}: cannot be read as GGUF ({error}); it may be cut off: download it anew") from None


@cache
def _reader() -> Any:
    gguf = library()
    array, text = gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.STRING
    base: Any = gguf.GGUFReader

    class GgufReader(base):  # type: ignore[misc]
        """Arrays of numbers are one part each; of long arrays of texts only the end is found."""

        def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[Any]]:
            if raw_type != array:
                return self._each_by_itself(orig_offs, raw_type)
            kind = self._get(orig_offs, "uint32")
            count = self._get(orig_offs + 4, "uint64")
            of, entries, begin = gguf.GGUFValueType(int(kind[0])), int(count[0]), orig_offs + 12
            if of == array:
                raise ValueError("an array of arrays, which no program writes")
            if of != text:
                numbers = self._get(begin, self.gguf_scalar_to_np[of], entries)
                if len(numbers) < entries:
                    raise ValueError(f"an array of {entries:,} numbers ends beyond the file")
                return 12 + int(numbers.nbytes), [kind, count, numbers], [2], [array, of]
            if entries <= WALKED:
                return self._each_by_itself(orig_offs, raw_type)
            end = self._end_of_texts(begin, entries)
            return end - orig_offs, [kind, count, self.data[begin:end]], [], [array, of]

        def _each_by_itself(self, at: int, raw_type: int) -> tuple[int, list[Any], list[int], list[Any]]:
            parts: tuple[int, list[Any], list[int], list[Any]] = super()._get_field_parts(at, raw_type)
            return parts

        def _end_of_texts(self, at: int, entries: int) -> int:
            big = (self.byte_order == "S") == (sys.byteorder == "little")
            memory, length = memoryview(self.data), struct.Struct(">Q" if big else "<Q")
            for _ in range(entries):
                at += 8 + length.unpack_from(memory, at)[0]
            return at

        def _build_fields(self, offs: int, count: int) -> int:
            _bounded(count, MOST_KEYS, "keys")
            end: int = super()._build_fields(offs, count)
            return end

        def _build_tensor_info(self, offs: int, count: int) -> tuple[int, list[Any]]:
            _bounded(count, MOST_TENSORS, "tensors")
            found: tuple[int, list[Any]] = super()._build_tensor_info(offs, count)
            return found

    return GgufReader


def _bounded(count: int, most: int, what: str) -> None:
    if int(count) > most:
        raise ValueError(f"it says that it has {int(count):,} {what}, and at most {most:,} are read")


def metadata_of(path: Path, key: str) -> Any:
    """One value of a file's metadata; None where it is absent."""
    field = opened(path).fields.get(key)
    return None if field is None else field.contents()


def entries_of(path: Path, key: str) -> int:
    """The entries of an array of a file's metadata; 0 where there is none."""
    field = opened(path).fields.get(key)
    is_array = field is not None and field.types[0] == library().GGUFValueType.ARRAY
    # The name with its length, the type, the type of the entries, their count.
    return int(field.parts[4][0]) if is_array else 0


def values_of(path: Path) -> Callable[[str], Any]:
    """What gives the values of a file's metadata by key, None where a key is absent; long lists of texts too."""
    reader = opened(path)
    big = (reader.byte_order == "S") == (sys.byteorder == "little")

    def value(key: str) -> Any:
        field = reader.fields.get(key)
        if field is None:
            return None
        long = len(field.types) == 2 and field.types[1] == library().GGUFValueType.STRING and not field.data
        return _texts(memoryview(field.parts[5]), big) if long and len(field.parts) > 5 else field.contents()

    return value


def _texts(memory: memoryview, big: bool) -> list[str]:
    length, found, at = struct.Struct(">Q" if big else "<Q"), [], 0
    while at < len(memory):
        size = length.unpack_from(memory, at)[0]
        found.append(bytes(memory[at + 8 : at + 8 + size]).decode("utf-8"))
        at += 8 + size
    return found


def pieces_of(path: Path) -> list[Path]:
    """The file, or all the pieces of it that are there, the first first: the metadata stands in it."""
    named = _PIECE.fullmatch(path.name)
    if named is None:
        return [path]
    beside = sorted({path.name, *(name for name in os.listdir(path.parent) if _same_model(name, named.groups()))})
    return [piece for name in beside if (piece := path.with_name(name)) == path or piece.is_file()]


def _same_model(name: str, model: tuple[str | Any, ...]) -> bool:
    found = _PIECE.fullmatch(name)
    return found is not None and found.groups() == model


def is_gguf(path: Path) -> bool:
    """Whether a path names a GGUF file that is there."""
    return path.suffix == SUFFIX and path.is_file()
