"""Lines for people: folded at blanks on a terminal, which alone would break words, and whole in a pipe or a file."""

from __future__ import annotations

from typing import Any

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
