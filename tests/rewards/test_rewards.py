"""Rewards that need nothing beside: generated tasks, exact matches."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyformer.data.tokenizer_specs import Symbols
from anyformer.describe import from_toml, to_toml
from anyformer.rewards import ExactMatchReward, Query, Response, Reward, RewardError, TaskReward
from anyformer.tasks import Parity, Sorting, TaskData, questions
from anyformer.tasks.symbols import numbers_of, tokenizer_of
from anyformer.testing import rewards


def test_a_task_grades_its_own_answers():
    task = Sorting(numbers=5)
    data = TaskData(task=task)
    for question in questions(task, data.drawn(np.arange(20), 0, 8, test=False)):
        assert len(question.prompt) == 5
        assert question.prompt[-1] == "="
        assert list(question.wanted) == sorted(question.prompt[:-1])
        grade = TaskReward().grade(Query.of(question), Response(" ".join(question.wanted)))
        assert (grade.total, grade.parts) == (1.0, {"whole": 1.0, "share": 1.0})


def test_a_response_is_made_of_sampled_tokens():
    """Without its ends of text, and with the spellings by which a task grades."""
    tokenizer = tokenizer_of(Symbols(), Sorting(numbers=5).symbols)
    numbers = numbers_of(tokenizer, Sorting(numbers=5).symbols)
    made = Response.of([numbers[3], numbers[0], tokenizer.end, tokenizer.end], tokenizer, ended=True)
    assert made == Response("n3 n0", (numbers[3], numbers[0]), ("n3", "n0"), ended=True)
    (question,) = questions(Sorting(numbers=5), TaskData(task=Sorting(numbers=5)).drawn(np.arange(1), 0, 4, test=False))
    said = Response.of([numbers[int(name[1:])] for name in question.wanted], tokenizer, ended=False)
    assert TaskReward().grade(Query.of(question), said).total == 1
    assert TaskReward(counts="share").grade(Query.of(question), Response.of([], tokenizer, ended=True)).total == 0


def test_a_task_that_asks_between_asks_for_what_it_asks_last():
    task = Parity()
    for question in questions(task, TaskData(task=task).drawn(np.arange(9), 0, 6, test=True)):
        assert question.wanted == (str(question.prompt.count("1") % 2),)
        assert len(question.prompt) == 6


@given(st.lists(st.sampled_from("abc"), max_size=5), st.lists(st.sampled_from("abc"), max_size=5))
def test_only_the_right_answer_is_whole_and_its_share_is_the_greatest(wanted, said):
    parts = Sorting().grade(wanted, said)
    assert (parts["whole"] == 1) == (wanted == said)
    assert 0 <= parts["share"] <= 1
    assert (parts["share"] == 1) == (wanted == said and wanted != [])
    assert Sorting().grade(wanted, [*wanted, *said, "a"])["share"] < 1, "and one that goes on behind it is worth less"


def test_a_prompt_without_a_task_is_named():
    with pytest.raises(RewardError, match="'what is 2 \\+ 2' is of no generated task"):
        TaskReward().grade(Query("what is 2 + 2"), Response("4"))


@pytest.mark.parametrize(
    ("steps", "said", "right"),
    [
        (["space"], " a  b\n", True),
        ([], "a  b", False),
        (["case"], "A B", True),
        (["space"], "A b", False),
        (["punctuation", "articles", "space"], "the a. b!", True),
        (["articles"], "the b", True),
        (["articles"], "b a", True),
        (["punctuation"], "the b", False),
        (["unicode"], "ａ b", True),
    ],
)
def test_answers_are_compared_after_the_steps_that_are_asked(steps, said, right):
    reward = ExactMatchReward(normalise=tuple(steps))
    assert reward.grade(Query("?", {"answer": "a b"}), Response(said)).total == right


def test_one_of_several_right_answers_is_right():
    reward = ExactMatchReward(column="a.b")
    query = Query("?", {"a": {"b": ["one", "1"]}})
    assert [reward.grade(query, Response(text)).total for text in ("1", "one", "two")] == [1, 1, 0]


@pytest.mark.parametrize("record", [{}, {"answer": None}, {"answer": ["x", 3]}, {"answer": []}])
def test_a_record_without_an_answer_is_named_with_its_prompt(record):
    with pytest.raises(RewardError, match=r"reward exact_match: .*'answer'.*of the prompt 'how many\?'"):
        ExactMatchReward().grade(Query("how many?", record), Response("x"))


PARTS = {"right": {"reward": "exact_match"}, "words": {"reward": {"kind": "length", "unit": "words"}, "weight": -0.5}}
NEEDED = {"function": {"function": "x"}, "mixture": {"parts": PARTS}, "model": {"path": "x"}, "pattern": {"pattern": "4."}}
"""Fields without which a reward is none."""
BESIDE = {"function", "model", "task"}
"""Kinds that are graded by something else, whose own tests have it."""
SLOW = {"code", "json_schema", "math", "reasoning_gym"}
"""Kinds that ask a process, or a package."""


KINDS = sorted(kind for kind, entry in Reward.kinds.items() if entry.__module__.startswith("anyformer."))


def made(kind: str) -> Reward:
    return Reward.kinds[kind].parse(NEEDED.get(kind, {}))  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("kind", KINDS)
def test_a_reward_survives_text(kind):
    assert from_toml(type(made(kind)), to_toml(made(kind))) == made(kind)


@pytest.mark.parametrize("contract", rewards.CONTRACTS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("kind", sorted(set(KINDS) - BESIDE - SLOW))
def test_every_contract_holds(kind, contract):
    contract(made(kind), rewards.pairs_of(made(kind), ()))


@pytest.mark.parametrize("kind", ["json_schema", "math"])
def test_hostile_answers_are_graded_aside(kind):
    rewards.hostile_answers_are_graded(made(kind), rewards.pairs_of(made(kind), ()))


def test_every_kind_stands_in_the_guide():
    text = (Path(__file__).parents[2] / "docs" / "rewards.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.M)) - {"kind"} == set(KINDS)
