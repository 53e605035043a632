"""Rewards of text: patterns, sections, lengths, and rewards made of others, each beside its formula in plain words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyformer.describe import DescriptionError
from anyformer.rewards import (
    ExtractedReward,
    FinishedReward,
    FormatReward,
    Grade,
    LengthReward,
    MixtureReward,
    PatternReward,
    Query,
    Response,
    RewardError,
    expressions,
)

QUERY = Query("how many?", {"answer": "42"})


def test_a_pattern_is_found_or_not():
    reward = PatternReward(pattern=r"^\d+$")
    assert [reward.grade(QUERY, Response(text)).total for text in ("42", "42 ", "")] == [1, 0, 0]


def test_a_pattern_that_backtracks_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(expressions, "SECONDS", 0.05)
    hostile, text = r"(a|aa)+$", "a" * 60 + "b"
    grade = PatternReward(pattern=hostile).grade(QUERY, Response(text))
    assert (grade.total, dict(grade.parts)) == (0, {"found": 0, "too_slow": 1})
    assert ExtractedReward(pattern=hostile).grade(QUERY, Response(text)).parts == {"extracted": 0}


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "", "(?P<x>a)(?P=y)"])
def test_what_is_no_pattern_is_refused_when_it_is_described(pattern):
    with pytest.raises(DescriptionError, match="pattern"):
        PatternReward(pattern=pattern)


SECTIONS = st.lists(st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", " ", "x"]), max_size=8).map("".join)


@given(st.one_of(SECTIONS, st.just("<think>x</think> <answer>x</answer>"), st.just("<think></think><answer>x</answer>")))
def test_a_format_is_that_of_a_regular_expression(text):
    inside = r"(?:(?!</?think>|</?answer>).)*?\S(?:(?!</?think>|</?answer>).)*?"
    plain = rf"\s*<think>{inside}</think>\s*<answer>{inside}</answer>\s*"
    grade = FormatReward().grade(QUERY, Response(text))
    assert grade.total == (re.fullmatch(plain, text, re.S) is not None)
    for name in ("think", "answer"):
        assert grade.parts[name] == (text.split(f"<{name}>").__len__() == 2 == text.split(f"</{name}>").__len__())


def test_a_section_may_be_opened_by_the_prompt():
    assert FormatReward(opened=True).grade(QUERY, Response("so</think><answer>42</answer>")).total == 1
    with pytest.raises(DescriptionError, match="has a name twice"):
        FormatReward(sections=("a", "a"))


@given(st.integers(1, 30), st.integers(0, 20), st.integers(0, 40))
def test_a_length_is_punished_softly(most, slack, count):
    """Equation 13 of DAPO's paper, case by case."""
    if slack >= most:
        with pytest.raises(DescriptionError, match=f"most = {most} should be more than slack = {slack}"):
            LengthReward(most=most, slack=slack)
        return
    reward = LengthReward(most=most, slack=slack).grade(QUERY, Response("x" * count, tuple(range(count))))
    wanted = 0.0 if count <= most - slack else ((most - slack) - count) / slack if count <= most and slack else -1.0
    assert reward == Grade(wanted, {"length": count})


def test_a_length_has_a_unit_and_a_least():
    by_word, by_character = (LengthReward(most=5, slack=1, least=2, unit=unit) for unit in ("words", "characters"))
    assert [reward.grade(QUERY, Response("a bc")).total for reward in (by_word, by_character)] == [0, 0]
    assert by_word.grade(QUERY, Response("a")).total == -1
    with pytest.raises(RewardError, match="'how many\\?' has text and no tokens: set unit"):
        LengthReward().grade(QUERY, Response("a"))


def test_an_answer_that_was_cut_is_not_finished():
    assert [FinishedReward().grade(QUERY, Response("", ended=ended)).total for ended in (True, False)] == [1, 0]


@pytest.mark.parametrize(
    ("text", "which", "total"),
    [
        ("<answer>42</answer>", "last", 1),
        ("<answer>1</answer><answer>42</answer>", "last", 1),
        ("<answer>1</answer><answer>42</answer>", "first", 0),
        ("42", "last", -0.5),
        ("", "last", -0.5),
    ],
)
def test_a_part_is_graded_as_an_answer(text, which, total):
    grade = ExtractedReward(which=which, missing=-0.5).grade(QUERY, Response(text))
    assert grade.total == total
    assert grade.parts["extracted"] == (total != -0.5)


def test_a_part_has_no_tokens():
    with pytest.raises(DescriptionError, match=r"of\.kind = 'task' reads tokens"):
        ExtractedReward.parse({"of": "task"})


def test_a_mixture_is_the_sum_of_its_parts_by_their_weights():
    described = {
        "kind": "mixture",
        "parts": {
            "right": {"reward": {"kind": "extracted"}, "weight": 2.0},
            "form": {"reward": "format"},
            "length": {"reward": {"kind": "length", "unit": "characters", "most": 9, "slack": 4}, "weight": -0.5},
        },
    }
    reward = MixtureReward.parse(described)
    assert reward.columns == ("answer",)
    assert not reward.reads_tokens
    (whole, bare) = reward.grades([(QUERY, Response("<think>a</think><answer>42</answer>")), (QUERY, Response("42"))])
    assert whole.total == 2 * 1 + 1 + 0.5
    assert dict(whole.parts) == {
        "right": 1, "right.right": 1, "right.extracted": 1, "form": 1, "form.think": 1, "form.answer": 1, "length": -1,
        "length.length": 35,
    }  # fmt: skip
    assert bare.total == 0
    with pytest.raises(DescriptionError, match="no weight that is not 0"):
        MixtureReward.parse({"parts": {"a": {"reward": "task", "weight": 0.0}}})
