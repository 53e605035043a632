"""`ConformCase`: requests that show one way in which engines go wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anyformer.conforming.facts import ModelFacts
from anyformer.conforming.request import Round


class NotAskedError(Exception):
    """A model has nothing that a case would show; the words say why."""


@dataclass(frozen=True)
class ConformCase:
    """`asks`: what it sends, in words; `finds`: what is wrong with an engine that departs in it and in no earlier one.

    `stage`: of cases that depart, those of the earliest stage say what is wrong, and of those the shortest text.
    """

    name: str
    asks: str
    finds: str
    stage: int
    rounds: Callable[[ModelFacts], tuple[Round, ...]]
