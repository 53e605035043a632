"""An answer that is what a field of the record says."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable
from typing import Literal

from anyformer.rewards.record_fields import texts_of
from anyformer.rewards.reward import Grade, Query, Response, Reward

Step = Literal["unicode", "case", "punctuation", "articles", "space"]
_ARTICLES = frozenset({"a", "an", "the"})


class ExactMatchReward(Reward):
    """1 where the answer is the text of a field of its record, or one of a list of texts there, else 0.

    Both are made alike first, step by step. All five steps are those of SQuAD and a fold of Unicode (Rajpurkar et al. 2016,
    arXiv 1606.05250); blanks at the ends never count.
    """

    kind: Literal["exact_match"] = "exact_match"
    column: str = "answer"
    """The field of the record with the right answer, or a list of right answers."""
    normalise: tuple[Step, ...] = ("space",)
    """What is done to both texts, in this order: `unicode` (NFKC), `case` (folded), `punctuation` (ASCII's is taken out),
    `articles` (a, an, the are taken out), `space` (a run of blanks is one)."""

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def grade(self, query: Query, response: Response) -> Grade:
        said = normalised(response.text, self.normalise)
        right = any(said == normalised(text, self.normalise) for text in texts_of(query, self.column, self.kind))
        return Grade(float(right), {"right": float(right)})


def normalised(text: str, steps: tuple[Step, ...]) -> str:
    """A text after some steps, without blanks at its ends."""
    for step in steps:
        text = _STEPS[step](text)
    return text.strip()


def _without_articles(text: str) -> str:
    return " ".join(word for word in text.split() if word.lower() not in _ARTICLES)


_STEPS: dict[Step, Callable[[str], str]] = {
    "unicode": lambda text: unicodedata.normalize("NFKC", text),
    "case": str.casefold,
    "punctuation": lambda text: text.translate(str.maketrans("", "", string.punctuation)),
    "articles": _without_articles,
    "space": lambda text: " ".join(text.split()),
}
