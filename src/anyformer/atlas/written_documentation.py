"""Sentences from the documentation of functions and fields whose modules need torch, read from their files without it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from anyformer.atlas.documentation import first_paragraph
from anyformer.atlas.papers import CitedPaper, papers
from anyformer.atlas.source import SentenceSource

PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class WrittenDocumentation(SentenceSource):
    """The first paragraph on a function, or on a field as `Class.field`; `place`: `parts/experts/balance.py:balance_loss`."""

    kind: ClassVar[str] = "documentation"
    place: str

    @property
    def says(self) -> str:
        return first_paragraph(self._found()[1])

    @property
    def cited(self) -> str:
        return self._found()[0]

    @property
    def page(self) -> str:
        return f"src/{PACKAGE.name}/{self.place.partition(':')[0]}"

    @property
    def papers(self) -> tuple[CitedPaper, ...]:
        return papers(self._found()[1])

    def problem(self) -> str | None:
        path, _, name = self.place.partition(":")
        if not (PACKAGE / path).is_file():
            return f"the package has no file {path}"
        return None if name in written(path) else f"{path} says nothing of {name}"

    def _found(self) -> tuple[str, str]:
        path, _, name = self.place.partition(":")
        return written(path)[name]


@cache
def written(path: str) -> dict[str, tuple[str, str]]:
    """What a file of the package documents: name -> (the name, of a field with its default; the documentation)."""
    body = ast.parse((PACKAGE / path).read_text(encoding="utf-8")).body
    found: dict[str, tuple[str, str]] = {}
    for each in body:
        if isinstance(each, ast.FunctionDef) and (text := ast.get_docstring(each)):
            found[each.name] = each.name, text
        elif isinstance(each, ast.ClassDef):
            found |= {f"{each.name}.{name}": (f"{each.name}.{name}{default}", text) for name, default, text in _fields(each)}
    return found


def _fields(of: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """The fields of a class with a docstring below them: (name, ` = default`, docstring)."""
    for pair in pairwise(of.body):
        match pair:
            case ast.AnnAssign(target=name, value=value), ast.Expr(value=ast.Constant(value=str(text))):
                yield ast.unparse(name), f" = {ast.unparse(value)}" if value else "", text
