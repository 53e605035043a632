"""Word and character error rates of transcripts: the fewest edits that make one text of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np

T = TypeVar("T")


def edit_distance(said: Sequence[T], real: Sequence[T]) -> int:
    """The fewest insertions, deletions and substitutions that make `real` of `said` (Levenshtein 1966).

        d_ij = min(d_(i-1)j + 1, d_i(j-1) + 1, d_(i-1)(j-1) + [said_i != real_j])

    A row of d at a time: with c_j the smaller of the first and the last, d_ij = min_(k <= j) (c_k - k) + j.
    """
    names = {item: number for number, item in enumerate(dict.fromkeys([*said, *real]))}
    wanted = np.array([names[item] for item in real], dtype=np.int64)
    places = np.arange(len(real) + 1)
    row = places.copy()
    for count, item in enumerate(said, start=1):
        changed = row[:-1] + (wanted != names[item])
        least = np.concatenate([[count], np.minimum(row[1:] + 1, changed)])
        row = np.minimum.accumulate(least - places) + places
    return int(row[-1])


@dataclass(frozen=True)
class EditCounts:
    """Edits of transcripts, and the words and characters of the true texts.

    word error rate = word edits / words, character error rate = character edits / characters; both may exceed 1. Words are
    what white space divides, as they are written: case and punctuation count.
    """

    word_edits: int = 0
    words: int = 0
    character_edits: int = 0
    characters: int = 0

    @classmethod
    def of(cls, said: str, real: str) -> Self:
        """Those of one transcript; white space is one blank between words."""
        mine, theirs = said.split(), real.split()
        one, other = " ".join(mine), " ".join(theirs)
        return cls(edit_distance(mine, theirs), len(theirs), edit_distance(one, other), len(other))

    def __add__(self, other: EditCounts) -> EditCounts:
        return EditCounts(
            self.word_edits + other.word_edits,
            self.words + other.words,
            self.character_edits + other.character_edits,
            self.characters + other.characters,
        )

    @property
    def word_error_rate(self) -> float:
        """Word edits per true word; of texts without a word the edits themselves."""
        return self.word_edits / max(1, self.words)

    @property
    def character_error_rate(self) -> float:
        """Character edits per true character."""
        return self.character_edits / max(1, self.characters)
