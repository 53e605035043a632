"""Arms that learnt nothing from context get no verdict; those that learnt little do."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.studies.made_up_findings import arm, findings

from anyformer.data import IGNORED
from anyformer.objectives.mixing import held_out_feed, training_feed
from anyformer.objectives.objective import Setting
from anyformer.studies import judging, resolve_arms, running
from anyformer.studies.judging import judged
from anyformer.studies.statistics import compare
from anyformer.studies.trained import LEAST, Unread, fairly, learnt, reasons, unread
from anyformer.text import DataError
from anyformer.training.held_out import corpus_of
from anyformer.training.trainer import windows_of

KNOWN = Unread("the frequencies of the targets alone", 3.0)


def test_shares_are_of_the_best_arm():
    known = dict.fromkeys(("best", "half", "none", "above"), KNOWN)
    shares = learnt({"best": 2.0, "half": 2.5, "none": 3.0, "above": 4.0, "unknown": 1.0}, known)
    assert shares == {"best": 1.0, "half": 0.5, "none": 0.0, "above": -1.0}
    assert learnt({"none": 3.0, "above": 4.0}, known) == {"none": 0.0, "above": 0.0}
    assert learnt({}, known) == {}


def compared(arm: float, base: float = 2.0, lost: int = 0):
    numbers = {seed: math.inf if seed < lost else arm + 0.001 * seed for seed in range(4)}
    return compare(dict.fromkeys(range(4), base), {"arm": numbers})["arm"]


@pytest.mark.parametrize(("loss", "trained"), [(3.1, False), (3.0 - LEAST / 2, False), (3.0 - 2 * LEAST, True), (2.5, True)])
def test_an_arm_that_learnt_nothing_is_not_worse(loss, trained):
    losses = {"base": 2.0, "arm": loss}
    known = dict.fromkeys(losses, KNOWN)
    before = compared(loss)
    assert before.verdict == "worse"
    after = fairly(before, "base", learnt(losses, known), reasons(losses, known))
    if trained:
        assert after == before
    else:
        assert (after.verdict, after.needed, after.untrained) == ("cannot tell", None, ("arm",))
        assert after.why == f"arm did not train: its loss is {loss:.4f}, and {KNOWN.said} reach 3.0000"
        assert (after.differences, after.interval, after.p) == (before.differences, before.interval, before.p)


def test_nothing_is_better_than_a_base_that_did_not_train():
    losses = {"base": 3.0, "arm": 2.0}
    known = dict.fromkeys(losses, KNOWN)
    before = compared(2.0, base=3.0)
    assert before.verdict == "better"
    assert fairly(before, "base", learnt(losses, known), reasons(losses, known)).untrained == ("base",)


def test_what_diverges_is_told_by_that():
    before = compared(3.0, lost=4)
    assert before.verdict == "worse"
    assert fairly(before, "base", {"base": 1.0, "arm": 0.0}, {"arm": ""}) == before


def test_findings_are_judged_with_their_lengths():
    made = findings({"base": arm("base", 2.0), "lost": arm("lost", 3.0), "good": arm("good", 2.2)})
    found = judged(made, dict.fromkeys(("base", "lost", "good"), KNOWN))
    assert [each.verdict for each in found.comparisons] == ["cannot tell", "worse"]
    assert [round(each.learnt, 2) for each in found.arms] == [1.0, -0.05, 0.79]
    assert replace(found, unread={}, arms=made.arms, comparisons=made.comparisons) == made


def test_reading_nothing_is_the_frequency_of_the_bytes_trained_on(study):
    """Counted again by hand, on the same rows; of arms of one data, objective and size once."""
    runs = {each.name: each.run.but(seed=1) for each in resolve_arms(study)}
    found = unread(runs)
    assert set(found) == set(runs)
    assert len(set(found.values())) == 1
    run = runs["base"]
    corpus = corpus_of(run)
    setting = Setting(corpus.tokenizer, run.length, run.seed, corpus.names, run.architecture)
    feed, held_out = (make(run.objective, run.data, corpus, setting, run.batch) for make in (training_feed, held_out_feed))
    vocabulary = run.architecture.outputs
    targets = torch.cat([feed.at(step).targets.flatten() for step in range(run.steps)]).numpy()
    known = np.bincount(targets[targets != IGNORED], minlength=vocabulary) + 1.0
    asked = torch.cat([each.targets.flatten() for each in held_out.once(windows_of(run, run.evaluation.final_tokens))]).numpy()
    expected = -np.log(known / known.sum())[asked[asked != IGNORED]].mean()
    assert found["base"].loss == pytest.approx(expected, rel=1e-9)


def test_where_the_data_is_not_the_report_says_so(study, monkeypatch):
    def gone(runs):
        raise DataError("data.paths: there is no such file")

    made = findings({"base": arm("base", 2.0), "lost": arm("lost", 3.0)})
    monkeypatch.setattr(judging, "unread", gone)
    monkeypatch.setattr(judging, "findings", lambda ran: made)
    ran = running.Ran(study, None, (), None, {})
    found = judging.told(ran)
    assert found.comparisons == made.comparisons
    assert "not judged, since their data is not on this machine: data.paths" in found.notes[0]
    assert judging.told(replace(ran, study=study.but(metric="accuracy"))) == made
