"""Lines for people: folded at blanks on a terminal, which alone would break words, and whole in a pipe or a file."""

from __future__ import annotations

from io import TextIOBase
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console


class Lines(Console):
    """A console whose `out` folds at blanks. Commands are printed by `unbroken`, so that they can be copied as one line."""

    def out(self, *objects: Any, sep: str = " ", end: str = "\n", style: Any = None, highlight: bool | None = None) -> None:
        if not self.is_terminal:
            super().out(*objects, sep=sep, end=end, style=style, highlight=highlight)
            return
        text = sep.join(map(str, objects))
        self.print(text, end=end, style=style, markup=False, emoji=False, highlight=highlight)


def unbroken(console: Console, line: str) -> None:
    """Print a line that ends in a command."""
    console.print(line, soft_wrap=True, markup=False, emoji=False, highlight=False)


class LaterFile(TextIOBase):
    """A text file, and its directory, that are made when the first line is added to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def write(self, text: str) -> int:
        if self._file is None:
            self._path.parent.mkdir(exist_ok=True)
            self._file = self._path.open("a", encoding="utf-8")
        return self._file.write(text)

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        super().close()  # which flushes
        if self._file is not None:
            self._file.close()
