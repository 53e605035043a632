"""A reward of a plug-in is held to the contracts of rewards, and mistakes of its class are named."""

from __future__ import annotations

from types import ModuleType
from typing import Literal

import pytest

from anyformer.rewards import Grade, Query, Response, Reward
from anyformer.testing import Checks
from anyformer.testing.plugin import promises
from anyformer.testing.promise import ask

ANSWERS = [(Query("a"), Response("Ab")), (Query("b"), Response("c"))]


def capitals(text: str) -> float:
    return sum(letter.isupper() for letter in text) / max(1, len(text))


class CapitalsReward(Reward):
    """The share of capitals in an answer."""

    kind: Literal["capitals_in_a_test"] = "capitals_in_a_test"
    wrong: Literal["no", "a number", "one", "order", "raises", "formula"] = "no"
    """What is wrong with it."""

    def grade(self, query: Query, response: Response) -> Grade:
        share = capitals(response.text)
        if self.wrong == "raises":
            return Grade(share * len(response.text) / len(response.text))
        if self.wrong == "a number":
            return share  # type: ignore[return-value]
        return Grade(int(share) if self.wrong == "one" else 2 * share if self.wrong == "formula" else share)

    def grades(self, pairs, judges=None):
        found = super().grades(pairs)
        return found[::-1] if self.wrong == "order" else found


@pytest.mark.parametrize(
    ("wrong", "broken"),
    [
        ("no", {}),
        ("a number", {"grades_are_finite_numbers": "grade gives float, and not a Grade"}),
        ("one", {"grades_are_finite_numbers": "total is 0, of type int, and not a float"}),
        ("order", {"grade_depends_on_its_answer_alone": "graded together, answers have other grades"}),
        ("raises", {"hostile_answers_are_graded": "the answer '' raises ZeroDivisionError"}),
        ("formula", {"grade_equals_its_twin": "of the answer 'Ab' it gives 1.0, and its formula 0.5"}),
    ],
)
def test_a_mistake_is_named_by_the_contract_that_it_breaks(wrong, broken):
    module = ModuleType(CapitalsReward.__module__)
    twins = {"capitals_in_a_test": lambda reward, query, response: capitals(response.text)}
    module.CHECKS = Checks(examples=[CapitalsReward(wrong=wrong)], rewards=twins, answers=ANSWERS)  # type: ignore[attr-defined]
    found = [finding for finding in ask(promises(module)) if "capitals_in_a_test" in finding.promise.of]
    assert len(found) == 5
    kept = {finding.promise.what: finding.why for finding in found if finding.fails}
    assert kept.keys() == broken.keys()
    for name, why in broken.items():
        assert why in kept[name]
