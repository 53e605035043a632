"""Sentences from the documentation of parts, which none of them needs torch for."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from anyformer.atlas.papers import CitedPaper, papers
from anyformer.atlas.source import SentenceSource
from anyformer.describe.docstrings import field_docstrings

GOES_ON = re.compile(r"(?:[,+*=(]|\b(?:the|of|a|an|and|in|from|one|all|its|share of softmax))$")
"""The end of a line of a formula that goes on in the next one, which begins nothing new."""


@cache
def documented() -> Mapping[str, Any]:
    """What has documentation of its own, by its name: parts, and the functions that put them together. None needs torch."""
    import anyformer.model as model
    import anyformer.parts as parts
    from anyformer.describe import Value
    from anyformer.describe.value import subclasses

    classes = {each.__name__: each for each in subclasses(Value) if each.__module__.startswith(f"{parts.__name__}.")}
    made = {name: item for room in (model, parts) for name, item in vars(room).items() if inspect.isfunction(item)}
    return {**made, **classes}


def first_paragraph(text: str) -> str:
    """The first paragraph of a docstring on one line, and the formula that stands indented below it."""
    first, *rest = inspect.cleandoc(text).split("\n\n")
    formula = rest[0] if rest and rest[0].startswith(" ") else ""
    told = " ".join(first.split())
    for number, line in enumerate(map(str.strip, formula.splitlines())):
        told += f"; {line}" if number and not GOES_ON.search(told) else f" {line}"
    return told


@dataclass(frozen=True)
class Documentation(SentenceSource):
    """The documentation of a part or of one of its fields: the first paragraph, and the papers of the whole."""

    kind: ClassVar[str] = "documentation"
    part: str
    field: str = ""

    @property
    def says(self) -> str:
        return first_paragraph(self._text())

    @property
    def cited(self) -> str:
        return f"{self.part}.{self.field}" if self.field else self.part

    @property
    def page(self) -> str:
        module: str = documented()[self.part].__module__
        return f"src/{module.replace('.', '/')}.py"

    @property
    def papers(self) -> tuple[CitedPaper, ...]:
        return papers(self._text())

    def problem(self) -> str | None:
        if self.part not in documented():
            return f"no part is called {self.part!r}"
        return None if self._text() else f"{self.cited} has no documentation"

    def _text(self) -> str:
        found = documented()[self.part]
        return field_docstrings(found).get(self.field, "") if self.field else inspect.getdoc(found) or ""
