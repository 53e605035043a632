"""Questions about a walk whose answers are words, some of which fit: what lives there is an animal, what lies there is a thing.

`walk-answers`: four words at random. `walk-preferences`: two such answers, of which more words of the `chosen` one fit.
`walk-judgements`: one answer, desirable where at least half of its words fit. So it is known what was planted,
and how much of it a model has learnt: `fitting`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from anyformer.data.builtin.source import Builtin, Values, draw
from anyformer.data.sources import SourceFile, find_sources

ANIMALS = (
    "cat", "dog", "owl", "fox", "hen", "bee", "ant", "cow", "pig", "rat", "bat", "elk", "frog", "deer", "wolf", "bear",
)  # fmt: skip
THINGS = (
    "cup", "hat", "key", "pen", "bag", "box", "jar", "bed", "net", "rug", "axe", "fan", "boat", "coin", "lamp", "bell",
)  # fmt: skip
FITTING = {"lives": frozenset(ANIMALS), "lies": frozenset(THINGS)}
"""The words that fit the verb of a question."""
WORDS, COUNT = 4, 4000
"""Words of an answer, and the number of questions that are asked."""
PLACES = ("park", "wood", "yard", "cave", "barn", "lane", "dale", "moor", "glen", "farm", "town", "hill", "lake", "path")
SORTS = ("old", "new", "big", "dry", "wet", "red", "dim", "low", "far", "odd", "icy", "hot", "sad", "shy", "raw", "tiny")
NAMES = ("ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal", "ida", "jim", "kay")
QUESTIONS = len(FITTING) * len(PLACES) * len(SORTS) * len(NAMES)
STRIDE = 1597
"""It has no divisor in common with `QUESTIONS`. Questions from number `COUNT` on are in no records."""


def question_of(number: int) -> str:
    """Another one for every number below `QUESTIONS`, in an order in which every word comes soon."""
    found, words = number * STRIDE % QUESTIONS, list[str]()
    for choices in (tuple(FITTING), PLACES, SORTS, NAMES):
        found, at = divmod(found, len(choices))
        words.append(choices[at])
    verb, place, sort, name = words
    return f"{name} asks what {verb} in the {sort} {place}:"


def answer_of(key: str) -> str:
    """Four words, each an animal or a thing with equal chances."""
    every = (*ANIMALS, *THINGS)
    return " " + " ".join(every[draw(f"{key} {place}", len(every))] for place in range(WORDS))


def fitting(question: str, answer: str) -> float:
    """The share of the answer's words that fit, of four words or of as many as it has where these are more."""
    said: Sequence[str] = answer.split()
    wanted = next(words for verb, words in FITTING.items() if f" {verb} " in question)
    return sum(word in wanted for word in said) / max(WORDS, len(said))


def _files() -> list[SourceFile]:
    return find_sources([str(Path(__file__))])


def _answers(source: SourceFile) -> Iterator[Values]:
    for number in range(COUNT):
        yield number + 1, {"prompt": question_of(number), "completion": answer_of(f"answer {number}")}


def _preferences(source: SourceFile) -> Iterator[Values]:
    for number in range(COUNT):
        question, given = question_of(number), [answer_of(f"pair {number} {one}") for one in range(2)]
        worse, better = sorted(given, key=lambda answer: fitting(question, answer))
        if fitting(question, better) > fitting(question, worse):
            yield number + 1, {"prompt": question, "chosen": better, "rejected": worse}


def _judgements(source: SourceFile) -> Iterator[Values]:
    for number in range(COUNT):
        question, given = question_of(number), answer_of(f"judged {number}")
        yield number + 1, {"prompt": question, "completion": given, "label": 2 * fitting(question, given) >= 1}


WALK_ANSWERS = Builtin("walk-answers", "Questions, answered by random words.", _answers, _files)
WALK_PREFERENCES = Builtin("walk-preferences", "Preferences: the answer of which more words fit.", _preferences, _files)
WALK_JUDGEMENTS = Builtin("walk-judgements", "Judgements: whether half the words fit.", _judgements, _files)
