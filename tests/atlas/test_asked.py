"""Which studies ask about a mechanism is what their arms differ in, counted here from the runs of their reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anyformer.atlas import topic, topic_page
from anyformer.atlas.asked_sources import InEveryArm, NotAsked, StudyOf, StudyVerdicts, asking, studies_of
from anyformer.atlas.differing import differing
from anyformer.atlas.holders import words
from anyformer.atlas.measured import arm_pairs, findings, studied_arms, studies
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
        pairs = [each for each in arm_pairs() if each.study == study and arms[each.arm] != arms[each.than]]
        compared = {frozenset((each.arm, each.than)) for each in (*apart, *pairs)}
        assert sum(f'"{each.said}"' in told for each in apart) <= 3
        assert any(f'"{each.said}"' in told for each in apart) or len(compared) > len(apart)
        assert bool(compared) != told.endswith("No finding compares one of them to one without.")


def test_what_no_study_asks_about_is_said():
    (name,) = (each.name for each in mechanisms() if each.word == "YaRN" or each.name.startswith("YaRN"))
    (found,) = studies_of(name)
    assert found == NotAsked((name,))
    assert found.problem() is None
    assert found.says == f"No study here asks about {name}: none has arms with it beside arms without."
    assert NotAsked(("ALiBi",)).problem() == "a study asks about ALiBi: positions"
    assert StudyOf("positions", "SwiGLU").problem() == "no study 'positions' asks about SwiGLU"
    assert StudyVerdicts("positions", ("SwiGLU",)).problem() == "the study positions does not ask about SwiGLU"


def test_what_all_arms_of_a_study_have_is_said():
    name = "recurrences beside attention (hybrid)"
    (found,) = studies_of(name)
    assert isinstance(found, InEveryArm)
    assert found.problem() is None
    assert all(arms_with("shared-block", '"kind": "mamba2"').values())
    arms = len(studied_arms()["shared-block"])
    said = f"all {arms} arms of shared-block have it, which asks: {studies()['shared-block'].title}"
    assert found.says == f"No study here has arms with {name} beside arms without: {said}"
    assert InEveryArm("ALiBi").problem() == "a study asks about ALiBi: positions"
    assert InEveryArm("YaRN").problem() == "no study has YaRN in all arms"


@pytest.mark.parametrize(
    ("study", "arm", "than", "what", "others"),
    [
        ("parts", "multi_query", "modern", "multi-query attention (MQA)", ()),
        ("entries", "entries", "window", "multi-query attention (MQA)", ("Compressor",)),
        ("positions", "alibi", "rotary", "ALiBi", ()),
        ("positions", "rotary", "relative_buckets", "rotary positions (RoPE)", ()),
        ("dynamic-tanh", "dynamic_tanh", "rms_norm", "RMSNorm", ()),
        ("recall", "gated_delta_32", "linear_32", "delta rule", ("a decay per head",)),
        ("recall-states", "ttt_linear", "linear_attention", "rotary positions (RoPE)",
         ("EluPlusOne", "LayerNorm", "LinearAttention", "TTTLinear")),
        ("chosen-keys", "window", "all_keys", "sliding windows", ()),
    ],
)  # fmt: skip
def test_what_two_arms_differ_in_beside_a_mechanism(study, arm, than, what, others):
    assert differing(study, arm, than, what) == others
    assert differing(study, than, arm, what) == others


def test_a_finding_of_arms_that_differ_in_more_says_so_and_is_no_verdict():
    speech = StudyOf("speech", "tied embeddings")
    assert "differs in other things too: an encoder and a decoder, " in speech.says
    assert speech.verdict is None
    assert StudyOf("positions", "ALiBi").verdict == "holds"


def test_an_arm_beside_the_base_is_told_where_no_finding_is_of_both():
    told = StudyOf("chosen-keys", "sliding windows").says
    report = json.loads((STUDIES / "chosen-keys" / "report.json").read_text(encoding="utf-8"))
    (pair,) = (each for each in report["comparisons"] if each["name"] == "window")
    assert pair["verdict"] == "worse"
    assert f"window against all keys: worse: accuracy {pair['interval']['value']:+.3f} " in told
    assert "window against all keys (differs in other things too: " in StudyOf("entries", "sliding windows").says
    assert len(arm_pairs()) == sum(
        len(json.loads((STUDIES / name / "report.json").read_text(encoding="utf-8"))["comparisons"]) for name in studies()
    )


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


def test_a_mechanism_of_several_words_needs_no_quotes():
    quoted, plain = (CliRunner().invoke(app, ["atlas", *words]) for words in (["sliding windows"], ["sliding", "windows"]))
    assert plain.exit_code == 0
    assert plain.output == quoted.output
