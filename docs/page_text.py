"""Tables and paragraphs of the pages that scripts beside this file write."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    names = list(heads)
    lines = [names, ["---"] * len(names), *([str(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def prose(text: str) -> str:
    """A paragraph, folded as the pages are."""
    return "\n".join(textwrap.wrap(text, 128, break_on_hyphens=False)) + "\n"


def filled(pages: Iterable[Path], made: Mapping[str, str]) -> dict[Path, str]:
    """The pages with everything between `<!-- name -->` and `<!-- end of name -->` made anew; every name is on one of them."""
    texts = {path: path.read_text(encoding="utf-8") for path in pages}
    for name, content in made.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        (path,) = (path for path, text in texts.items() if begin in text)
        before, rest = texts[path].split(begin)
        texts[path] = before + begin + content + end + rest.split(end, 1)[1]
    return texts


def write(pages: Mapping[Path, str]) -> None:
    """Write every page."""
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
