"""`Builtin`: records that come with the machine, under a word of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from anyformer.data.description import STDLIB
from anyformer.data.row import RecordRow
from anyformer.data.sources import SourceFile, find_sources

Values = tuple[int, dict[str, Any]]
"""Line of the file where a record comes from, from 1, and its fields."""


@dataclass(frozen=True)
class Builtin:
    """`files`: what its records are made from, in order; `records`: those of one file, the same ones each time; `seconds`: of
    sounds, what none of them lasts longer than."""

    word: str
    sentence: str
    records: Callable[[SourceFile], Iterator[Values]]
    files: Callable[[], list[SourceFile]]
    seconds: float | None = None

    def sources(self) -> list[SourceFile]:
        """Its files, each knowing whose it is."""
        return [replace(source, origin=self.word) for source in self.files()]

    def rows(self, source: SourceFile, advance: Callable[[int], None] = lambda count: None) -> Iterator[RecordRow]:
        """The records of one of its files."""
        for line, values in self.records(source):
            yield RecordRow(f"{source.on_disk}:{line}", values, source.on_disk.parent)
        advance(source.size)


def standard_library() -> list[SourceFile]:
    """The files of the running interpreter's standard library, tests left out."""
    return find_sources([STDLIB])


def draw(words: str, count: int) -> int:
    """A number below `count` that depends on `words` alone."""
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") % count
