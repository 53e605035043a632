"""Fuzzy in-context recall."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from anyformer.data import IGNORED
from anyformer.describe import Count
from anyformer.tasks.draws import Draws, Ints
from anyformer.tasks.task import NOTHING, Task, TaskBatch, named


class FuzzyRecall(Task):
    """Keys and values of one to `span` letters are told; then the keys come again, in another order, with their values.

    a_1 b_1 ... a_P b_P, then the same pairs shuffled, a and b words of letters of their own. The value is read as it is asked,
    letter by letter. No two keys of a row are equal, though one may begin like another (Poli et al. 2024, arXiv 2403.17844,
    fuzzy in-context recall, with words of one to three letters).
    """

    paper: ClassVar[str] = "Poli et al. 2024, arXiv 2403.17844"
    scored: ClassVar[str] = "every letter of a value that comes again"
    level: ClassVar[str] = "1 / letters"
    kind: Literal["fuzzy_recall"] = "fuzzy_recall"
    pairs: Count = 4
    """P, keys that are told."""
    span: Annotated[int, Field(ge=1, le=8)] = 3
    """Most letters of a key, and of a value."""
    letters: Annotated[int, Field(ge=2, le=128)] = 16
    """Letters of keys, and as many others of values."""

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*named("k", self.letters), *named("v", self.letters))

    @property
    def least(self) -> int:
        return 4 * self.pairs * self.span

    @property
    def most(self) -> int:
        return self.least

    def chance(self, length: int) -> float:
        return 1 / self.letters

    def draw(self, draws: Draws, length: int) -> TaskBatch:
        rows, P, width = np.arange(len(draws))[:, None], self.pairs, 2 * self.span
        sizes = 1 + draws.below("sizes", self.span, 2 * P).reshape(-1, P, 2, 1)
        words = draws.below("letters", self.letters, P * width).reshape(-1, P, 2, self.span)
        words[:, :, 1] += self.letters
        words[np.broadcast_to(np.arange(self.span) >= sizes, words.shape)] = NOTHING
        # Every pair as it is told, then as it is asked: (B, 2 P, 2, span), of which the value's letters are asked.
        order = np.concatenate([np.broadcast_to(np.arange(P), (len(draws), P)), draws.shuffled("order", P)], axis=1)
        gaps = words[rows, order].reshape(len(draws), -1)
        place = np.argsort(gaps == NOTHING, axis=1, kind="stable")
        tokens = np.take_along_axis(gaps, place, axis=1)
        asked = (tokens != NOTHING) & (place >= P * width) & (place % width >= self.span)
        pair = np.take_along_axis(order, place // width, axis=1)
        told = np.take_along_axis(np.argsort(place, axis=1), pair * width + place % width, axis=1)
        back = np.arange(tokens.shape[1]) - 1 - told
        targets, answers, distances = (_before(each, asked, none) for each, none in ((tokens, IGNORED), (pair, 0), (back, 0)))
        distinct = (words[:, :, None, 0] == words[:, None, :, 0]).all(-1).sum((1, 2)) == P
        return TaskBatch.of(tokens, targets, self.chance(length), distances=distances, answers=answers, valid=distinct)


def _before(numbers: Ints, asked: NDArray[np.bool_], none: int) -> Ints:
    """The numbers where they are asked, each at the position before its own; `none` elsewhere."""
    moved = np.full_like(numbers, none)
    moved[:, :-1] = np.where(asked, numbers, none)[:, 1:]
    return moved
