"""Contracts of rewards: grades are finite numbers, of an answer alone, whatever a model wrote."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from anyformer.rewards.reward import Grade, Pair, Query, Response, Reward
from anyformer.testing.promise import Promise

RewardTwin = Callable[[Reward, Query, Response], float]
"""The formula of a reward again, in plain words: its total."""
HOSTILE = (
    "", " ", "\n\n", "\0", "\ufeff", "a" * 20_000, "(" * 5_000, "[" * 5_000, "<" * 5_000, "\\" * 999, "```\n```", "```", "nan",
    "-inf", "1e999", "9" * 5_000, "{}", "<answer></answer>", "\u202e42", "\u0661\u0662", "\ud800", "%s{}{0}$1",
)  # fmt: skip
"""Texts that a model may write."""


def pairs_of(reward: Reward, given: Sequence[Pair]) -> list[Pair]:
    """Answers to grade: those given, else one to a record in which every field that the reward reads holds a text."""
    if given:
        return list(given)
    record: dict[str, object] = {}
    for column in reward.columns:
        place, *inner = column.split(".")
        record[place] = "42" if not inner else _nested(inner)
    return [
        (Query("a prompt", record), Response("42", (1, 2), ("4", "2"))),
        (Query("a prompt", record), Response("no", (3,), ("no",))),
    ]


def _nested(names: Sequence[str]) -> object:
    return "42" if not names else {names[0]: _nested(names[1:])}


def grades_are_finite_numbers(reward: Reward, pairs: Sequence[Pair]) -> None:
    """A total and its parts are numbers."""
    for query, response in pairs:
        grade = reward.grade(query, response)
        assert isinstance(grade, Grade), f"grade gives {type(grade).__name__}, and not a Grade"
        for name, number in {"total": grade.total, **grade.parts}.items():
            assert type(number) is float, f"{name} is {number!r}, of type {type(number).__name__}, and not a float"
            assert math.isfinite(number), f"{name} is {number}"


def grade_depends_on_its_answer_alone(reward: Reward, pairs: Sequence[Pair]) -> None:
    """Graded together, in another order, or once more, an answer has the same grade."""
    alone = [reward.grade(query, response) for query, response in pairs]
    assert reward.grades(pairs) == alone, "graded together, answers have other grades"
    assert reward.grades(list(reversed(pairs))) == alone[::-1], "in another order, answers have other grades"
    assert [reward.grade(query, response) for query, response in pairs] == alone, "graded again, answers have other grades"


def hostile_answers_are_graded(reward: Reward, pairs: Sequence[Pair]) -> None:
    """Whatever a model writes has a grade."""
    query = pairs[0][0]
    answers = [(query, Response(text, (1,) * bool(text), (text,) * bool(text), ended=False)) for text in HOSTILE]
    for pair in answers:
        try:
            grades_are_finite_numbers(reward, [pair])
        except AssertionError:
            raise
        except Exception as error:  # any exception of a plug-in
            raise AssertionError(f"the answer {pair[1].text[:40]!r} raises {type(error).__name__}: {error}") from error


def grade_equals_its_twin(reward: Reward, pairs: Sequence[Pair], twin: RewardTwin) -> None:
    """The total is that of its formula, written again."""
    for query, response in pairs:
        ours, theirs = reward.grade(query, response).total, twin(reward, query, response)
        assert math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12), (
            f"of the answer {response.text[:40]!r} it gives {ours}, and its formula {theirs}"
        )


CONTRACTS: tuple[Callable[[Reward, Sequence[Pair]], None], ...] = (
    grades_are_finite_numbers,
    grade_depends_on_its_answer_alone,
    hostile_answers_are_graded,
)


def promises(of: str, reward: Reward, given: Sequence[Pair], twin: RewardTwin | None) -> Iterator[Promise]:
    """What a reward promises; `given`: answers that it grades, if its own fields do not say what they are."""
    pairs = pairs_of(reward, given)
    first = CONTRACTS[0].__name__
    for holds in CONTRACTS:
        needs = () if holds.__name__ == first else (first,)
        yield Promise(of, holds.__name__, partial(holds, reward, pairs), needs=needs)
    name = grade_equals_its_twin.__name__
    if twin is None:
        yield Promise(of, name, missing="give its formula in Checks(rewards={...}) to compare with", needed=False)
    else:
        yield Promise(of, name, partial(grade_equals_its_twin, reward, pairs, twin), needs=(first,))
