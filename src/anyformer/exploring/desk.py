"""Answers to a page's questions: sheets of architectures, each section made once and remembered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from anyformer import catalogue
from anyformer.costs.sheet import CostSheet
from anyformer.describe import DescriptionError, parse_assignment
from anyformer.describe.changing import NotedChange, changed
from anyformer.exploring.comparison import ComparedQuestion, compared
from anyformer.exploring.diagram import diagram_data
from anyformer.exploring.figures import figures, sheet_of, warnings
from anyformer.exploring.forms import forms
from anyformer.exploring.masks import masks_data
from anyformer.exploring.parts import parts_data
from anyformer.exploring.problems import RefusedChangeError, UnknownNameError, refused
from anyformer.exploring.question import PricedCall, SheetQuestion
from anyformer.exploring.runs import OpenedRuns, RunDesk
from anyformer.model import Architecture

FORMAT = 1
REMEMBERED = 64
"""Answers of each section that are kept."""


@lru_cache(maxsize=REMEMBERED)
def _sheet(made: Architecture, call: PricedCall) -> CostSheet:
    return sheet_of(made, call)


class Desk:
    """Answers about the architectures of the catalogue, about those that were `opened`, by name or path: a page can name
    no other file; and about those that are at hand, its `own`, by names of theirs."""

    def __init__(self, opened: Sequence[str] = (), own: Mapping[str, Architecture] = MappingProxyType({})) -> None:
        self.opened, self.own = tuple(dict.fromkeys(opened)), own
        self.runs = RunDesk(OpenedRuns.among(self.opened))
        self._base = cache(self._resolved)
        self._made = lru_cache(maxsize=REMEMBERED)(self._changed)
        self._side_by_side = lru_cache(maxsize=REMEMBERED)(self._beside)
        self._section = lru_cache(maxsize=4 * REMEMBERED)(self._answered)

    def architecture(self, of: str, changes: Sequence[str] = ()) -> Architecture:
        """The architecture of a name, changed; raises `UnknownNameError` and `RefusedChangeError`."""
        return self._made(of, tuple(changes)).value

    def sections(self, question: SheetQuestion, *names: str) -> dict[str, Any]:
        """Some sections of a sheet in its envelope."""
        made, notes = self.architecture(question.of, question.changes), self._made(question.of, question.changes).notes
        priced = _sheet(made, question.call)
        envelope = {
            "format": FORMAT,
            "of": question.of,
            "title": ", ".join([self.title(question.of), *question.changes]),
            "digest": made.digest,
            "entry": _entry(question.of),
            "set": list(question.changes),
            "call": {**asdict(question.call), "length": priced.length, "source": priced.source},
            "shape": made.shape_of_model,
            "warnings": [*_stand_in(question.of), *(f"{note}." for note in notes), *warnings(priced)],
            "remarks": [str(remark) for remark in priced.remarks],
        }
        for name in names:
            envelope |= self._section(name, question)
        return envelope

    def compared(self, question: ComparedQuestion) -> Mapping[str, Any]:
        """Architectures side by side."""
        return self._side_by_side(question)

    @property
    def architectures(self) -> list[str]:
        """What was opened and has an architecture: all but studies."""
        return [of for of in self.opened if of not in self.runs.opened.studies]

    def title(self, of: str) -> str:
        """The name of an architecture for people."""
        return of if of in self.own or catalogue.listed(of) else Path(of).name

    def file(self, of: str) -> str:
        """What a command is to name: of an own one the file that its TOML is copied to."""
        return f"{of}.toml" if of in self.own else of

    def _answered(self, name: str, question: SheetQuestion) -> Mapping[str, Any]:
        made = self.architecture(question.of, question.changes)
        return SECTIONS[name](self, question, _sheet(made, question.call))

    def _beside(self, question: ComparedQuestion) -> Mapping[str, Any]:
        named: dict[str, Architecture] = {}
        for of, changes in question.of:
            title = f"{self.title(of)}, changed" if changes else self.title(of)
            again = sum(other == title or other.startswith(f"{title} (") for other in named)
            named[f"{title} ({again + 1})" if again else title] = self.architecture(of, changes)
        return {"format": FORMAT, **compared(named, question.call)}

    def _resolved(self, of: str) -> Architecture:
        if of in self.own:
            return self.own[of]
        if of in self.architectures or of in self.runs.opened.every:
            from anyformer.resolving import architecture

            return architecture(of)
        try:
            return catalogue.architecture(of)
        except DescriptionError as error:
            raise UnknownNameError(str(error)) from None

    def _changed(self, of: str, changes: tuple[str, ...]) -> NotedChange[Architecture]:
        base = self._base(of)
        if not changes:
            return NotedChange(base, ())
        try:
            return changed(base, dict(map(parse_assignment, changes)))
        except DescriptionError as error:
            raise RefusedChangeError(refused(base, changes, error)) from None


SECTIONS: Mapping[str, Callable[[Desk, SheetQuestion, CostSheet], Mapping[str, Any]]] = {
    "figures": lambda desk, question, sheet: {"figures": figures(sheet, question.call)},
    "parts": lambda desk, question, sheet: parts_data(sheet),
    "diagram": lambda desk, question, sheet: {"diagram": diagram_data({desk.title(question.of): sheet.architecture})},
    "masks": lambda desk, question, sheet: {"masks": masks_data(sheet.architecture, question.call.length)},
    "forms": lambda desk, question, sheet: {"forms": forms(replace(question, of=desk.file(question.of)), sheet)},
}
"""What makes each section of a sheet."""


def _entry(of: str) -> dict[str, Any] | None:
    """The line of the catalogue, without its columns."""
    line = catalogue.listed(of)
    if line is None:
        return None
    facts = asdict(line)
    return {key: facts[key] for key in facts if key != "columns"}


def _stand_in(of: str) -> list[str]:
    line = catalogue.listed(of)
    return [f"a stand-in, whose figures are not exact: {line.stand_in}."] if line is not None and line.stand_in else []
