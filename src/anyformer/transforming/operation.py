"""Operations: tensors of the old model -> tensors of the new one, each with what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import torch
from torch import Tensor

Fate = Literal["kept", "copied", "approximated", "new", "dropped"]
"""`kept`: the same numbers, or numbers that compute the same; `copied`: those of another place, or once more; `approximated`:
as near as the new shape allows; `new`: by the rules of the description, or 0; `dropped`: not in the new model."""
ROUNDING = 1e-6
"""Relative error up to which weights count as kept: that of factoring in fp32."""
Fresh = Callable[[], Tensor]
"""Makes the initial value of a weight of the new model, by its description's rules."""


@dataclass(frozen=True)
class MadeWeight:
    """A weight of the new model; `error`: relative to the old numbers, in the Frobenius norm, None if there is none to tell."""

    value: Tensor
    fate: Fate
    error: float | None = None


class Operation(Protocol):
    """A pure function from old tensors to new ones."""

    @property
    def words(self) -> str:
        """What it does, for the report; empty if there is nothing to say."""
        ...

    def __call__(self, given: Sequence[Tensor], fresh: Sequence[Fresh]) -> list[MadeWeight]: ...


@dataclass(frozen=True)
class TransformStep:
    """One operation: the names of the new weights that it makes, and of the old ones that it reads."""

    targets: tuple[str, ...]
    sources: tuple[str, ...]
    operation: Operation
    inputs: str = ""
    """The old module whose inputs' moments the operation can use, given after the sources; empty if it uses none."""


@dataclass(frozen=True)
class Keep:
    """The same tensor."""

    fate: Fate = "kept"
    words: str = ""

    def __call__(self, given: Sequence[Tensor], fresh: Sequence[Fresh]) -> list[MadeWeight]:
        return [MadeWeight(given[0], self.fate)]


@dataclass(frozen=True)
class Copied:
    """An operation on weights that stay in another place too."""

    inner: Operation
    how: str

    @property
    def words(self) -> str:
        return f"{self.how}; {self.inner.words}" if self.inner.words else self.how

    def __call__(self, given: Sequence[Tensor], fresh: Sequence[Fresh]) -> list[MadeWeight]:
        made = self.inner(given, fresh)
        return [replace(each, fate="copied") if each.fate == "kept" else each for each in made]


@dataclass(frozen=True)
class New:
    """The initial value that the new description's rules give."""

    words: str = "initialised by the description's rules"

    def __call__(self, given: Sequence[Tensor], fresh: Sequence[Fresh]) -> list[MadeWeight]:
        return [MadeWeight(make(), "new") for make in fresh]


@dataclass(frozen=True)
class Zero:
    """Zeros."""

    words: str

    def __call__(self, given: Sequence[Tensor], fresh: Sequence[Fresh]) -> list[MadeWeight]:
        return [MadeWeight(torch.zeros_like(make()), "new") for make in fresh]


def relative_error(made: Tensor, wanted: Tensor) -> float:
    """|made - wanted| / |wanted| in the Frobenius norm; 0 where both are 0."""
    made, wanted = made.double(), wanted.double()
    size = float(wanted.norm())
    gap = float((made - wanted).norm())
    return gap / size if size else float(gap > ROUNDING)


def judged(value: Tensor, error: float) -> MadeWeight:
    """Kept if the error is that of rounding, else approximated."""
    return MadeWeight(value, "kept") if error <= ROUNDING else MadeWeight(value, "approximated", error)
