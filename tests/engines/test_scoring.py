"""Texts are scored alike by another engine."""

from __future__ import annotations

import pytest

from anyformer.engines import EngineRefusedError
from anyformer.engines.llama_library import grouped
from anyformer.evaluation import ChoiceQuestion, answer, open_subject

QUESTIONS = [
    ChoiceQuestion("Once upon a", ("time", "cat", "time there was"), 0),
    ChoiceQuestion("", ("one", "two"), 1),
    ChoiceQuestion("the sky is very ", ("blue", "b"), 0),
]


def test_choices_have_the_same_likelihood(place, engine):
    said = []
    own, other = open_subject(place), open_subject(place, engine="auto", said=said.append)
    assert next(other.model.parameters()).is_meta
    assert said[0].startswith("engine: stand-in 1.0, proved on 3 rows")
    for mine, its in zip(answer(own, QUESTIONS).answered, answer(other, QUESTIONS).answered, strict=True):
        assert its.log_likelihoods == pytest.approx(mine.log_likelihoods, abs=1e-4)


def test_what_gives_one_token_s_logits_does_not_score(place, engine):
    engine.scores = False
    assert open_subject(place, engine="auto").reader is None
    with pytest.raises(EngineRefusedError, match="logits of the next token alone"):
        open_subject(place, engine="stand-in")


def test_what_is_not_scored_is_the_own_engine_s(place, engine):
    subject = open_subject(place, engine="auto", beside=("the loss on data",), said=pytest.fail)
    assert subject.reader is None
    with pytest.raises(EngineRefusedError, match="does not do the loss on data"):
        open_subject(place, engine="stand-in", beside=("the loss on data",))
    assert engine.does == []


def test_the_commands_ask_for_engines(place, call):
    for words, reason in (
        (["generate", str(place), "Once", "--draft", "lookup"], "--draft"),
        (["eval", str(place), "--data", str(place)], "the loss on data"),
    ):
        refused = call(*words, "--engine", "llama.cpp")
        assert refused.returncode == 2, refused.stderr
        assert f"anyformer: --engine llama.cpp: it does not do {reason}" in refused.stderr


def test_groups_stay_within_a_bound():
    assert grouped([3, 4, 5, 9, 1, 1], 8) == [[0, 1], [2], [3], [4, 5]]
    assert grouped([2], 1) == [[0]]
