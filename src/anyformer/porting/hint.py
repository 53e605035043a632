"""One thing that files show, or that may be guessed, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anyformer.huggingface.rules import To
from anyformer.porting.changes import ArchitectureChange, Put
from anyformer.porting.derivation import Derivation

Lines = Mapping[str | tuple[str, ...], str | To]


@dataclass(frozen=True)
class Hint:
    """One thing that the files show: the change, the lines of names that it needs, and why, in words."""

    why: str
    changes: tuple[ArchitectureChange, ...] = ()
    more: Mapping[Any, str | To] | None = None
    ignored: tuple[str, ...] = ()
    absent: Mapping[str, Any] = field(default_factory=dict)
    """Values of keys that the base reads and the files lack."""

    def applied(self, derivation: Derivation) -> Derivation:
        replaced = {change.path for change in self.changes if isinstance(change, Put)}
        before = [each for each in derivation.changes if not (isinstance(each, Put) and each.path in replaced)]
        said = {part for source in self.more or {} for part in _parts(source)}
        kept = {source: to for source, to in derivation.more.items() if not said.intersection(_parts(source))}
        return replace(
            derivation,
            changes=(*before, *self.changes),
            more={**kept, **(self.more or {})},
            ignored=(*derivation.ignored, *self.ignored),
            absent={**derivation.absent, **self.absent},
        )


def _parts(source: str | tuple[str, ...]) -> tuple[str, ...]:
    return (source,) if isinstance(source, str) else source
