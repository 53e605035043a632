"""Pieces of code with the name of the package or module of the standard library that they come from, the largest ones."""

from __future__ import annotations

import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from anyformer.data.builtin.code import text_of
from anyformer.data.builtin.source import Builtin, Values, standard_library
from anyformer.data.sources import SourceFile

CLASSES = 20
_SHORTEST, _LONGEST = 200, 1000
_GENERATED = frozenset({"pydoc_data"})
"""Packages that hold no code."""


def _top(source: SourceFile) -> str:
    return source.on_disk.relative_to(Path(sysconfig.get_path("stdlib"))).parts[0].removesuffix(".py")


def largest() -> list[SourceFile]:
    """The files of the largest packages and modules."""
    sources = [source for source in standard_library() if _top(source) not in _GENERATED]
    sizes: Counter[str] = Counter()
    for source in sources:
        sizes[_top(source)] += source.size
    kept = set(sorted(sizes, key=lambda name: (-sizes[name], name))[:CLASSES])
    return [source for source in sources if _top(source) in kept]


def _modules(source: SourceFile) -> Iterator[Values]:
    """Pieces of whole paragraphs, of about equal length."""
    lines, begin, size = (text_of(source) or "").split("\n"), 0, 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if (not line.strip() and size >= _SHORTEST) or size >= _LONGEST or number == len(lines) - 1:
            text = "\n".join(lines[begin : number + 1]).strip("\n")
            if _SHORTEST // 2 <= len(text) <= 2 * _LONGEST:
                yield begin + 1, {"text": text, "label": _top(source)}
            begin, size = number + 1, 0


MODULES = Builtin(
    "python-modules", f"Classes: a piece of code, and which of {CLASSES} packages of Python it is from.", _modules, largest
)
