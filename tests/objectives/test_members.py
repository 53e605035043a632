"""How much an objective asks of its author: few members, in groups, and no more of any objective than of its base."""

from __future__ import annotations

import pytest

from anyformer.objectives import Objective
from anyformer.objectives.answers import AnswersObjective
from anyformer.objectives.preference import PreferenceObjective
from anyformer.objectives.records import RecordObjective
from anyformer.objectives.text import TextObjective
from anyformer.objectives.token_loss import TokenObjective
from anyformer.objectives.two_answers import TwoAnswersObjective

MOST, MORE = 15, 6
"""Members of the base, and of those that a class adds to what its bases have."""
BASES = (TextObjective, RecordObjective, TokenObjective, AnswersObjective, TwoAnswersObjective, PreferenceObjective)


def members(of: type[Objective]) -> set[str]:
    """What a class says of itself in public beside the fields of its description and its registry."""
    own = {*vars(of), *vars(of).get("__annotations__", {})} - {*of.model_fields, "kinds"}
    return {name for name in own if name[0] != "_" and not name.startswith("model_")}


def objectives() -> list[type[Objective]]:
    return [*BASES, *Objective.kinds.values()]


def test_an_objective_has_fifteen_members_at_most():
    assert len(members(Objective)) <= MOST, sorted(members(Objective))


@pytest.mark.parametrize("objective", objectives(), ids=lambda one: one.__name__)
def test_a_kind_of_objective_adds_few(objective):
    inherited = {name for base in objective.__mro__[1:] if issubclass(base, Objective) for name in members(base)}
    added = members(objective) - inherited
    assert len(added) <= MORE, sorted(added)
