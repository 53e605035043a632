"""The one way to a terminal: what commands print goes through here, whoever wrote the words in it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from anyformer.describe import printable

if TYPE_CHECKING:
    from rich.console import Console

BROKEN_PIPE = 141
"""The exit code of a shell for a program whose reader left, as `head` does."""
_STYLE = re.compile(r"(\x1b\[(?:[0-47]|2[2-4]|[39][0-7])(?:;[0-47]|;2[2-4]|;[39][0-7])*m)")
"""Bold, dim, italic, underlined and coloured words, which commands write: nothing that hides a word or moves it."""
_BARS = re.compile(r"(\r\n?|\x1b\[(?:[0-9;]*m|\?25[lh]|[0-9]*[AK]))")
"""What bars of progress write beside that."""


def tell(line: str) -> None:
    """Print a line on standard error, for people."""
    print(printable(line), file=sys.stderr, flush=True)


def confirmed(question: str) -> bool:
    """Whether somebody at the terminal agrees; asked on standard error."""
    import typer

    return typer.confirm(question, err=True)


def with_bars() -> Console:
    """Rich's console on standard output for work that shows a bar, which moves the cursor.

    It names its file: while a bar moves, Rich puts a stream of its own in the place of standard output.
    """
    from rich.console import Console

    return Console(file=getattr(sys.stdout, "rich_proxied_file", None))


class Terminal:
    """A stream to a terminal, on which control characters are escapes but for newline, tab, and what is `allowed`."""

    def __init__(self, stream: TextIO, allowed: re.Pattern[str] = _STYLE) -> None:
        self._stream, self._allowed = stream, allowed

    def write(self, text: str) -> int:
        if text.isprintable():
            return self._stream.write(text)
        parts = self._allowed.split(text)
        self._stream.write("".join(part if number % 2 else printable(part, tabs=True) for number, part in enumerate(parts)))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    @property
    def rich_proxied_file(self) -> TextIO:
        """Where Rich writes, whose bars move the cursor."""
        return cast("TextIO", Terminal(self._stream, _BARS))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def terminals() -> Iterator[None]:
    """Inside, standard output and standard error are `Terminal`s where they are terminals; elsewhere every byte stays.

    A name that no encoding has is written as an escape, and where the reader of standard output leaves, the process ends.
    """
    streams = sys.stdout, sys.stderr
    for stream in streams:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        if sys.stdout.isatty():
            sys.stdout = cast("TextIO", Terminal(sys.stdout))
        if sys.stderr.isatty():
            sys.stderr = cast("TextIO", Terminal(sys.stderr, _BARS))
        yield
    finally:
        sys.stdout, sys.stderr = streams


@contextmanager
def pipes() -> Iterator[None]:
    """End the process quietly where the reader of standard output has left."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(BROKEN_PIPE) from None
