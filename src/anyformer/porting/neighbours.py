"""The known families nearest to a configuration and its weights, with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.huggingface.registry import FAMILIES, READ_ONLY
from anyformer.porting.derivation import Derivation
from anyformer.porting.explaining import Fit, explained
from anyformer.porting.keys import dropped, known
from anyformer.porting.tensors import FileModule, count


@dataclass(frozen=True)
class Neighbour:
    """A known family beside the new one, and how much of it the family explains: shares from 0 to 1."""

    fit: Fit
    weights: float
    """Of the tensors, those that have a place of their shape; one that the family needs and the files lack counts against."""
    names: float
    """Of the tensors that have a place, those whose modules have the very name."""
    keys: float
    """Of the configuration's keys with a meaning, those that the family reads."""

    @property
    def model_type(self) -> str:
        return self.fit.derivation.base

    @property
    def score(self) -> float:
        """Weights and keys, then names."""
        return self.weights + 0.8 * self.keys + 0.2 * self.names

    @property
    def reasons(self) -> str:
        """The shares, and what has no place on either side."""
        fit = self.fit
        said = f"{self.weights:.0%} of weights by shape, {self.names:.0%} of those by name, {self.keys:.0%} of keys"
        if fit.left:
            said += f"; has no place for {_listed([each.name for each in fit.left])}"
        if fit.missing:
            said += f"; would need {_listed([line.module.name for line in fit.missing])}"
        return said


def neighbours(table: Mapping[str, Any], modules: Mapping[str, FileModule], model_types: Iterable[str]) -> list[Neighbour]:
    """Model types that can read the configuration at all, the nearest first; ties in the order of names."""
    found = []
    for model_type in model_types:
        fit = explained(Derivation(model_type), table, modules)
        if fit.architecture is not None:
            found.append(scored(fit, table, modules))
    return sorted(found, key=lambda each: (-each.score, each.fit.assumed, each.model_type))


def scored(fit: Fit, table: Mapping[str, Any], modules: Mapping[str, FileModule]) -> Neighbour:
    """How much a fit explains."""
    placed = [modules[name] for name in fit.matched.values()]
    total = count(modules.values()) + count(line.module for line in fit.missing)
    same = [modules[theirs] for ours, theirs in fit.matched.items() if ours == theirs]
    meant = [key for key in table if known(key) and not dropped(key)]
    read = [key for key in meant if key not in fit.unread]
    weights = count(placed)
    return Neighbour(fit, weights / max(1, total), count(same) / max(1, weights), len(read) / max(1, len(meant)))


def known_types() -> list[str]:
    """The model types that a new one is held against: those of transformers, and those of files with code of their own."""
    return [model_type for types in (*FAMILIES.values(), *READ_ONLY.values()) for model_type in types]


def _listed(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
