"""Rewards in a process beside: functions of plug-ins, mathematics, schemas; what fails is named, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from anyformer.describe import Notice, naming
from anyformer.rewards import (
    FunctionReward,
    JSONSchemaReward,
    MathReward,
    Query,
    ReasoningGymReward,
    Response,
    RewardError,
    aside,
    write_problems,
)
from anyformer.rewards.aside import AsideError
from anyformer.tasks import Sorting, TaskData, questions

PLUGIN = str(Path(__file__).with_name("plugged.py"))


@pytest.fixture(scope="module", autouse=True)
def plugin():
    with naming([PLUGIN]):
        yield
    aside.aside().close()


def test_a_function_is_given_all_that_there_is():
    (question,) = questions(Sorting(numbers=5), TaskData(task=Sorting(numbers=5)).drawn(np.arange(1), 0, 6, test=False))
    query = Query(question.text, {"a": {"b": 7}}, question)
    grade = FunctionReward(function="all_seen").grade(query, Response("x", (3, 4), question.wanted, ended=False))
    assert grade.total == 1
    assert dict(grade.parts) == {"prompt": len(question.text), "tokens": 7, "ended": 0, "field": 7, "failed": 0}


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("hangs", "no answer within 0.3 s"),
        ("loops", "no answer within 0.3 s"),
        ("raises", "KeyError: 'nothing'"),
        ("leaves", "SystemExit: 3"),
        ("dies", "its process ended, with the exit code 4"),
        ("nan", "what it gives should be finite, got nan|its total should be finite, got nan"),
        ("infinite", "should be finite, got inf"),
        ("none", r"what it gives should be a number, got 'None' \(NoneType\)"),
        ("text", r"what it gives should be a number, got '1.0' \(str\)"),
        ("part", "its part 'share' should be finite"),
    ],
)
def test_a_function_that_fails_is_named_with_the_prompt_and_the_next_answer_is_graded(way, message, monkeypatch):
    monkeypatch.setattr(aside, "_CLOCK", 2.0)
    reward, query = FunctionReward(function="broken", seconds=0.3), Query("how many apples?")
    with pytest.raises(RewardError, match=f"reward function 'broken' fails for the prompt 'how many apples\\?'.*({message})"):
        reward.grade(query, Response(way))
    assert reward.grade(query, Response("well")).total == 1


def test_an_answer_for_which_a_function_fails_may_have_a_reward_and_is_told_of():
    reward = FunctionReward(function="broken", otherwise=-1.0)
    with pytest.warns(Notice, match=r"'how many apples\?'.*should be finite, got nan; it gets -1"):
        assert reward.grade(Query("how many apples?"), Response("nan")).parts == {"failed": 1}


def test_a_record_that_is_no_plain_data_is_named():
    with pytest.raises(RewardError, match="the record holds a set, which is no plain data"):
        FunctionReward(function="words").grade(Query("?", {"a": {1}}), Response(""))


def test_a_name_that_no_plug_in_defines_is_refused_before_training():
    with pytest.raises(RewardError, match=r"'wordz': no plug-in defines it; did you mean 'words'\?.*--plugin FILE.py"):
        FunctionReward(function="wordz").check()
    FunctionReward(function="words").check()


@pytest.mark.parametrize(
    ("gold", "said", "right"),
    [
        (r"\frac{1}{2}", r"so it is $\boxed{0.5}$", True),
        ("42", "The answer is 42.", True),
        ("42", "The answer is 41.", False),
        ("x^2 + 1", "$1 + x^2$", True),
        ("$(1, 2)$", "$[1, 2)$", False),
        (12, "12", True),
        ("42", "", False),
        ("42", "$" + "{" * 2000, False),
    ],
)
def test_mathematics_is_compared_by_value(gold, said, right):
    assert MathReward().grade(Query("?", {"answer": gold}), Response(said)).total == right


def test_mathematics_that_takes_too_long_is_wrong(monkeypatch):
    def slow(*arguments):
        raise AsideError("no answer within 1 s")

    monkeypatch.setattr(aside.Aside, "call", slow)
    grade = MathReward().grade(Query("?", {"answer": "1"}), Response("1"))
    assert dict(grade.parts) == {"right": 0, "read": 0, "in_time": 0}


def test_a_field_without_mathematics_is_named():
    with pytest.raises(RewardError, match=r"field 'answer' holds '', .*of the prompt 'why'; mend it"):
        MathReward().grade(Query("why", {"answer": ""}), Response("1"))


SCHEMA = '{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}, "p": {"pattern": "^(a+)+$"}}}'


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('{"a": 1}', {"json": 1, "valid": 1}),
        ('```json\n{"a": 1}\n```\n', {"json": 1, "valid": 1}),
        ('so: {"a": 1}', {"json": 0, "valid": 0}),
        ('{"a": "1"}', {"json": 1, "valid": 0}),
        ('{"a": NaN}', {"json": 0, "valid": 0}),
        ("[" * 100_000, {"json": 0, "valid": 0}),
        (f'{{"a": 1, "p": "{"a" * 40}b"}}', {"json": 1, "valid": 0}),
    ],
    ids=lambda given: str(given)[:20],
)
def test_json_fits_its_schema_or_not(text, parts):
    reward = JSONSchemaReward(schema_text=SCHEMA, seconds=0.2)
    reward.check()
    assert dict(reward.grade(Query("?"), Response(text)).parts) == parts


def test_a_schema_may_stand_in_the_record():
    reward = JSONSchemaReward(column="schema")
    for schema in ({"const": 3}, '{"const": 3}'):
        grades = [reward.grade(Query("?", {"schema": schema}), Response(text)).total for text in ("3", "4")]
        assert grades == [1, 0]
    with pytest.raises(RewardError, match="field 'schema' in the record of the prompt 'why' is no JSON schema"):
        reward.grade(Query("why", {"schema": {"type": "objekt"}}), Response("3"))


def test_a_schema_that_is_none_is_refused_before_training():
    with pytest.raises(RewardError, match=r"reward\.schema_text is no JSON schema"):
        JSONSchemaReward(schema_text="{").check()


def test_a_schema_fetches_nothing():
    reward = JSONSchemaReward(schema_text='{"$ref": "http://localhost:1/schema.json"}')
    assert reward.grade(Query("?"), Response("3")).total == 0


GYM = """
class Problems:
    def __init__(self, size, seed, high):
        self.rows = [(seed + n) % high for n in range(size)]

    def __getitem__(self, n):
        a = self.rows[n]
        metadata = {"source_dataset": "doubling", "a": a}
        return {"question": f"{a} + {a} = ?", "answer": str(2 * a), "metadata": metadata}


def create_dataset(name, size, seed, **fields):
    assert name == "doubling"
    return Problems(size, seed, **fields)


def get_score_answer_fn(name):
    assert name == "doubling"
    return lambda said, entry: 1.0 if said == str(2 * entry["metadata"]["a"]) else 0.05
"""


def test_problems_of_reasoning_gym_are_written_and_graded_as_it_grades_them(tmp_path, monkeypatch):
    """By a package of its face: itself it takes a compiler and a minute to install."""
    (tmp_path / "reasoning_gym.py").write_text(GYM)
    monkeypatch.syspath_prepend(tmp_path)
    aside.aside().close()
    write_problems(tmp_path / "rows.jsonl", "doubling", count=3, seed=4, high=6)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [(row["prompt"], row["answer"]) for row in rows] == [("4 + 4 = ?", "8"), ("5 + 5 = ?", "10"), ("0 + 0 = ?", "0")]
    grades = [ReasoningGymReward().grade(Query(row["prompt"], row), Response(" 8\n")) for row in rows[:2]]
    assert [grade.total for grade in grades] == [1.0, 0.05]
    assert grades[1].parts == {"whole": 0, "in_time": 1}
    with pytest.raises(RewardError, match=r"should be a problem .* of the prompt 'why'; `write_problems` writes"):
        ReasoningGymReward().grade(Query("why", {"entry": "8"}), Response("8"))
    aside.aside().close()


@pytest.mark.parametrize(("reward", "extra"), [(MathReward(), "rewards"), (ReasoningGymReward(), "reasoning")])
def test_a_package_that_is_missing_is_named_before_training(reward, extra, monkeypatch):
    for module in ("math", "reasoning_gym"):
        monkeypatch.setattr(f"anyformer.rewards.{module}.find_spec", lambda name: None)
    with pytest.raises(RewardError, match=f"anyformer\\[{extra}\\]"):
        reward.check()
