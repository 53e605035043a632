"""One line changed, so that somebody should notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A file with one line changed: `path` in the tree, the number of the line, its text `before` and `after`."""

    key: str
    """A name that stays when other lines change."""
    path: str
    line: int
    operator: str
    before: str
    after: str

    def applied(self, source: str) -> str:
        """The source with the changed line. Raises `ValueError` if the line is another by now."""
        lines = source.splitlines(keepends=True)
        if self.line > len(lines) or lines[self.line - 1].rstrip("\n") != self.before:
            raise ValueError(f"{self.path}:{self.line}: the line has changed since the sample was drawn")
        lines[self.line - 1] = self.after + "\n"
        return "".join(lines)
