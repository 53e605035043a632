"""The kinds of a registry, each with its documentation: objectives, which are no part of an architecture."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar

from anyformer.atlas.documentation import first_paragraph
from anyformer.atlas.papers import CitedPaper, papers
from anyformer.atlas.source import SentenceSource
from anyformer.describe import UserError, Value


@dataclass(frozen=True)
class RegisteredKind(SentenceSource):
    """One kind of a registry; `base`: its base class, as `package:Class`. Importing objectives takes torch."""

    kind: ClassVar[str] = "documentation"
    base: str
    name: str

    @property
    def says(self) -> str:
        return first_paragraph(inspect.getdoc(kinds(self.base)[self.name]) or "")

    @property
    def cited(self) -> str:
        return kinds(self.base)[self.name].__name__

    @property
    def page(self) -> str:
        return f"src/{kinds(self.base)[self.name].__module__.replace('.', '/')}.py"

    @property
    def papers(self) -> tuple[CitedPaper, ...]:
        return papers(inspect.getdoc(kinds(self.base)[self.name]) or "")

    def problem(self) -> str | None:
        return None if self.name in kinds(self.base) else f"{self.base} has no kind {self.name!r}"


def kinds(base: str) -> Mapping[str, type[Value]]:
    """The classes of a registry by their kinds."""
    module, _, name = base.partition(":")
    try:
        found: Mapping[str, type[Value]] = vars(import_module(module))[name].kinds
    except ModuleNotFoundError as error:
        raise UserError(f"the kinds of {name} are read with {error.name}: pip install {error.name}") from None
    return found
