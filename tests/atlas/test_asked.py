"""Which studies ask about a mechanism is what their arms differ in, counted here from the runs of their reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anyformer.atlas import topic, topic_page
from anyformer.atlas.asked_sources import NotAsked, StudyOf, StudyVerdicts, asking, studies_of
from anyformer.atlas.holders import words
from anyformer.atlas.measured import findings, studied_arms, studies
from anyformer.atlas.mechanism import MIXERS
from anyformer.atlas.topic import mechanisms
from anyformer.cli import app

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "docs" / "studies"


def arms_with(study: str, said: str) -> dict[str, bool]:
    """By arm of a study whether its description has some words of JSON."""
    report = json.loads((STUDIES / study / "report.json").read_text(encoding="utf-8"))
    runs = {name: json.dumps(run["architecture"]) for name, run in report["runs"].items()}
    names = [arm["name"] for arm in report["arms"]]
    return {arm: said in next(run for name, run in runs.items() if name.startswith(f"{arm}-")) for arm in names}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ALiBi", '"kind": "alibi"'),
        ("RWKV-7", '"kind": "rwkv7"'),
        ("keys that an indexer chooses", '"kind": "indexer"'),
        ("LinearAttention", '"kind": "linear_attention"'),
    ],
)
def test_the_studies_that_ask_have_arms_with_it_beside_arms_without(name, said):
    found = {study: arms_with(study, said) for study in studies()}
    asked = {study: arms for study, arms in found.items() if set(arms.values()) == {True, False}}
    assert asked
    assert set(asking(name)) == set(asked)
    for study, arms in asked.items():
        told = StudyOf(study, name).says
        assert f"{sum(arms.values())} of {len(arms)} arms have it" in told
        apart = [each for each in findings() if each.study == study and arms[each.arm] != arms[each.than]]
        assert [f'"{each.said}"' in told for each in apart] == [at < 3 for at in range(len(apart))]
        assert bool(apart) != told.endswith("No finding compares one of them to one without.")


def test_what_no_study_asks_about_is_said():
    for name in ("latent attention (MLA)", "recurrences beside attention (hybrid)"):
        (found,) = studies_of(name)
        assert found == NotAsked((name,))
        assert found.problem() is None
        assert found.says == f"No study here asks about {name}: none has arms with it beside arms without."
    assert NotAsked(("ALiBi",)).problem() == "a study asks about ALiBi: positions"
    assert StudyOf("positions", "SwiGLU").problem() == "no study 'positions' asks about SwiGLU"
    assert StudyVerdicts("positions", ("SwiGLU",)).problem() == "the study positions does not ask about SwiGLU"


def test_a_hybrid_has_a_recurrence_and_attention():
    (hybrid,) = (each for each in mechanisms() if each.mixed)
    attending, recurrent = map(set, hybrid.mixed)
    of_topics = {
        name: {each.word for each in topic(name).mechanisms if each.column == MIXERS} for name in ("attention", "recurrence")
    }
    assert attending == of_topics["attention"], "what is new among them is a mixer of a hybrid too"
    assert of_topics["recurrence"] - recurrent == {"convolution", "Fourier"}, "which keep no sum of the past"
    assert {(MIXERS, word) for word in attending | recurrent} <= set(words())


def test_a_study_is_known_by_the_arms_of_its_report():
    assert set(studied_arms()) == set(studies())
    for name, arms in studied_arms().items():
        report = json.loads((STUDIES / name / "report.json").read_text(encoding="utf-8"))
        assert [arm.name for arm in arms] == [arm["name"] for arm in report["arms"]]


def test_a_topic_names_every_study_that_asks_and_what_none_does():
    for name in ("positions", "recurrence"):
        made = topic(name)
        (section,) = (each for each in topic_page(made).sections if each.title == "Which studies ask about it")
        sources = [sentence.source for item in section.items for sentence in item.sentences]
        *told, without = sources
        asked = {study for each in made.mechanisms for study in asking(each.name)}
        assert {each.study for each in told} == asked | set(made.studies)
        assert set(without.what) == {each.name for each in made.mechanisms if not asking(each.name)}
    verdicts = StudyVerdicts("selective-copying", ("Mamba-2",))
    assert verdicts.says.endswith("Arms differ in Mamba-2. Findings that do not: 3.")


@pytest.mark.parametrize("verb", ["atlas", "help"])
def test_the_terminal_names_them(verb):
    said = " ".join(CliRunner().invoke(app, [verb, "GQA"]).output.split())
    assert "our study parts; docs/studies/parts/report.md" in said
    assert "cannot tell" in said


def test_other_words_are_looked_up_in_the_glossary():
    said = " ".join(CliRunner().invoke(app, ["atlas"]).output.split())
    assert "Any other word, such as MFU, is looked up in the glossary." in said
    done = CliRunner().invoke(app, ["atlas", "MFU"])
    assert done.exit_code == 0
    assert done.output.startswith("No topic and no mechanism of the atlas; the glossary has it:")
    assert "model FLOPs utilisation" in done.output
    data = json.loads(CliRunner().invoke(app, ["atlas", "MFU", "--json"]).output)
    assert data["glossary"][0]["names"][0] == "MFU"
