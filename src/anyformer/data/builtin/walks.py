"""Questions about who was met on a walk, whose answers are words, some of which fit: those for animals.

`walk-answers`: four words at random. `walk-preferences`: two such answers, of which more words of the `chosen` one fit.
`walk-judgements`: one answer, desirable where at least half of its words fit. So it is known what was planted,
and how much of it a model has learnt: `fitting`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from anyformer.data.builtin.source import Builtin, Values, draw
from anyformer.data.sources import SourceFile, find_sources

ANIMALS = (
    "cat", "dog", "owl", "fox", "hen", "bee", "ant", "cow", "pig", "rat", "bat", "elk", "frog", "deer", "wolf", "bear",
)  # fmt: skip
THINGS = (
    "cup", "hat", "key", "pen", "bag", "box", "jar", "bed", "net", "rug", "axe", "fan", "boat", "coin", "lamp", "bell",
)  # fmt: skip
WORDS, COUNT = 4, 4000
"""Words of an answer, and the number of questions that are asked."""
PLACES = ("park", "wood", "yard", "cave", "barn", "lane", "dale", "moor", "glen", "farm", "town", "hill", "lake", "path")
VERBS = ("lives", "walks")
SORTS = ("old", "new", "big", "dry", "wet", "red", "dim", "low", "far", "odd", "icy", "hot", "sad", "shy", "raw", "tiny")
NAMES = ("ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal", "ida", "jim", "kay")
QUESTIONS = len(VERBS) * len(PLACES) * len(SORTS) * len(NAMES)
STRIDE = 1597
"""It has no divisor in common with `QUESTIONS`. Questions from number `COUNT` on are in no records."""


def question_of(number: int) -> str:
    """Another one for every number below `QUESTIONS`, in an order in which every word comes soon."""
    found, words = number * STRIDE % QUESTIONS, list[str]()
    for choices in (VERBS, PLACES, SORTS, NAMES):
        found, at = divmod(found, len(choices))
        words.append(choices[at])
    verb, place, sort, name = words
    return f"{name} asks who {verb} in the {sort} {place}:"


def answer_of(key: str) -> str:
    """Four words, each an animal or a thing with equal chances."""
    every = (*ANIMALS, *THINGS)
    return " " + " ".join(every[draw(f"{key} {place}", len(every))] for place in range(WORDS))


def fitting(answer: str) -> float:
    """The share of the answer's words that fit, of four words or of as many as it has where these are more."""
    said = answer.split()
    return sum(word in ANIMALS for word in said) / max(WORDS, len(said))


def _files() -> list[SourceFile]:
    return find_sources([str(Path(__file__))])


def _answers(source: SourceFile) -> Iterator[Values]:
    for number in range(COUNT):
        yield number + 1, {"prompt": question_of(number), "completion": answer_of(f"answer {number}")}


def _preferences(source: SourceFile) -> Iterator[Values]:
    for number in range(COUNT):
        worse, better = sorted((answer_of(f"pair {number} {one}") for one in range(2)), key=fitting)
        if fitting(better) > fitting(worse):
            yield number + 1, {"prompt": question_of(number), "chosen": better, "rejected": worse}


def _judgements(source: SourceFile) -> Iterator[Values]:
    for number in range(COUNT):
        given = answer_of(f"judged {number}")
        yield number + 1, {"prompt": question_of(number), "completion": given, "label": 2 * fitting(given) >= 1}


WALK_ANSWERS = Builtin("walk-answers", "Questions, answered by random words.", _answers, _files)
WALK_PREFERENCES = Builtin("walk-preferences", "Preferences: the answer of which more words fit.", _preferences, _files)
WALK_JUDGEMENTS = Builtin("walk-judgements", "Judgements: whether half the words fit.", _judgements, _files)
