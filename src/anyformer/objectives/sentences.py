"""Sentences of running text, by its tokens, and another order of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from anyformer.data.packing import Ints
from anyformer.text import Tokenizer
from anyformer.text.pieces import pieces

STOPS = (".", "!", "?")


@dataclass(frozen=True, eq=False)
class Sentences:
    """Where a sentence ends: behind a full stop that white space follows, and behind a special token.

    (V,) bool each: tokens that `stop` a sentence if white space follows, those that begin with it (`opens`), and those behind
    which a sentence is over whatever follows.
    """

    stops: NDArray[np.bool_]
    opens: NDArray[np.bool_]
    over: NDArray[np.bool_]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        texts, special = pieces(tokenizer), frozenset(tokenizer.special_tokens.values())
        return cls(
            np.array([text.endswith(STOPS) for text in texts]),
            np.array([text[:1].isspace() for text in texts]),
            np.array([number in special or _stop_and_space(text) for number, text in enumerate(texts)]),
        )

    def split(self, text: Ints) -> list[Ints]:
        """The sentences of a text; together they are the text."""
        before, after = text[:-1], text[1:]
        ends = np.flatnonzero(self.over[before] | (self.stops[before] & self.opens[after])) + 1
        return np.split(text, ends) if len(text) else []

    def reordered(self, text: Ints, draws: NDArray[np.float32]) -> Ints:
        """The sentences of a text in the order of their draws."""
        sentences = self.split(text)
        if len(sentences) < 2:
            return text
        return np.concatenate([sentences[place] for place in np.argsort(draws[: len(sentences)], kind="stable")])


def _stop_and_space(text: str) -> bool:
    return text[-1:].isspace() and text.rstrip().endswith(STOPS)


@lru_cache(maxsize=4)
def sentences_of(tokenizer: Tokenizer) -> Sentences:
    """The same for every batch of a run."""
    return Sentences.of(tokenizer)
