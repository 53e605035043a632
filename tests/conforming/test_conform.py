"""An engine that is right passes, and every mistake is found by the case that is there for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from benchmarks.engines.distorted import CHUNK, RUNTIME

from anyformer.conforming import CASES, GoldenVectors, ModelFacts, Reference, chosen, conform, golden_cases
from anyformer.conforming.cases import BY_NAME
from anyformer.conforming.golden import FLOOR
from anyformer.text.conventions import Conventions
from conforming import engines
from conforming.engines import LONGEST, SIZE, THETA, TRAINED, WINDOW, built, described

COMPUTED = {
    "theta": (lambda model: engines.OtherModel(model, **{THETA: 5000.0}), "plain"),
    "a norm 38 % off in one layer": (engines.OtherNorm, "plain"),
    "no cap of logits": (lambda model: engines.OtherModel(model, **{"head.softcap": None}), "plain"),
    "a cache in 8 bits": (engines.NarrowCache, "decode"),
    "a token that begins texts, twice": (engines.BeginTwice, "text"),
    "an end that is not known": (engines.LateEnd, "ends"),
    "a window one too long": (lambda model: engines.OtherModel(model, **{SIZE: WINDOW + 1}), "windowed"),
    "no window": (lambda model: engines.OtherModel(model, **{SIZE: LONGEST}), "windowed"),
    "no scaling beyond the original context": (engines.ShortScaling, "long"),
}
MISTAKES = COMPUTED | RUNTIME


@pytest.fixture(scope="module")
def model():
    return built(described())


@pytest.fixture(scope="module")
def facts(model):
    conventions = Conventions(begin=engines.BEGIN, ends=(engines.END, engines.END + 1))
    found = ModelFacts.of(model.architecture, None, conventions, longest=LONGEST, chunk=CHUNK)
    text = (engines.BEGIN, *found.drawn("text", 9))
    return replace(found, texts={"nine words": text})


@pytest.fixture(scope="module")
def golden(model, facts):
    return GoldenVectors("tiny", facts.vocabulary, "", golden_cases(CASES, facts, Reference(model)))


def test_the_model_has_what_the_cases_ask_for(facts):
    assert (facts.windows, facts.trained, facts.edge) == ((WINDOW,), (TRAINED,), WINDOW)
    assert all(case.rounds(facts) for case in CASES)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_by_its_case(mistake, model, golden):
    engine, case = MISTAKES[mistake]
    made = engine(model) if mistake in COMPUTED else engine(engines.RightEngine(model))
    report = conform(made, golden, [each for each in CASES if each.stage <= BY_NAME[case].stage])
    assert report.first is not None
    assert report.first.name == case


@pytest.mark.parametrize("engine", [engines.RightEngine, engines.Stateful])
def test_an_engine_that_is_right_passes(engine, model, golden):
    report = conform(engine(model), golden, CASES)
    assert report.conforms
    assert {case.state for case in report.cases} == {"right"}
    assert all(case.bound == FLOOR and case.figures.agreed == case.figures.told for case in report.cases)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounding_that_was_measured_is_no_mistake(dtype, model, facts, golden):
    few = chosen(["plain", "decode", "batch"])
    engine = engines.Rounded(model, dtype)
    narrow = GoldenVectors("tiny", facts.vocabulary, "", golden_cases(few, facts, Reference(model), Reference(engine.net)))
    assert conform(engine, narrow, few).conforms
    assert not conform(engine, golden, few).conforms, "beyond the bound of fp32"
    assert not conform(engines.OtherNorm(model), narrow, few).conforms, "a mistake is larger than rounding"
