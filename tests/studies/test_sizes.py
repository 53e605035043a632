"""Smaller sizes of a study: gates, ladders, and a rate that is chosen at a small width; trials are made up, not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyformer.catalogue.llama import llama
from anyformer.describe import DescriptionError, change
from anyformer.studies import Arm, ArmTuning, Ladder, Matching, SizeGate, forecast, resolve_arms
from anyformer.studies.comparing import report
from anyformer.studies.findings import findings
from anyformer.studies.page import page
from anyformer.studies.trials import WHOLE, sizes_of
from anyformer.studies.words import markdown
from anyformer.training.priced import flops_of
from made_up import WORSE, gone_through, loss_of


@pytest.fixture
def several(study):
    relu = Arm(set=("decoder.layer.feedforward.activation=relu",))
    wide = llama(width=64, depth=2, heads=2, kv_heads=2, ffn=128, vocab=257, tied=True)
    return study.but(arms={**study.arms, "relu": relu}, base=study.base.but(steps=40, architecture=wide))


def test_gates_leave_out_the_worst_arms_before_they_cost_much(several):
    gated = several.but(gates=(SizeGate(size=0.25, keep=2), SizeGate(size=0.5, keep=1)))
    ran, counts = gone_through(gated)
    assert counts == [4, 4 + 3, 4 + 3 + 2 * 3, 4 + 3 + 2 * 3]
    assert [gate.left_out for gate in ran.stage.gates] == [("relu",), ("gelu",)]
    assert ran.left_out == ("relu", "gelu")
    sizes = {trial.size for trial in ran.stage.tuning}
    assert sizes == {0.25, 0.5}
    small = next(trial for trial in ran.stage.tuning if trial.size == 0.25)
    whole = ran.stage.final[0]
    assert small.run.architecture.width < whole.run.architecture.width
    assert small.run.steps == pytest.approx(0.25 * 40, abs=2)
    assert small.run.seed not in gated.seeds
    found = findings(ran.__class__(**{**ran.__dict__, "directory": Path("nowhere")}))
    assert [arm.name for arm in found.arms] == ["base", "one_head"]
    text = "\n".join(markdown(found, {}))
    assert "left out: relu" in text
    assert "| gelu |" in text
    assert "left out: gelu" in page(found)


def test_gates_tune_each_arm_before_they_judge_it(several):
    """An arm that is only good at another rate is not left out for it."""

    def loss(trial):
        return loss_of(trial, best=1.2e-2 if trial.arm == "one_head" else 3e-3)

    tuned = several.but(tuning=ArmTuning(values=(3e-3, 6e-3, 1.2e-2), widen=0), gates=(SizeGate(size=0.25, keep=1),))
    ran, counts = gone_through(tuned, loss)
    assert ran.stage.gates[0].kept == ("base", "one_head")
    assert counts == [12, 12 + 6, 12 + 6 + 6, 12 + 6 + 6]
    assert {trial.value for trial in ran.stage.final if trial.arm == "one_head"} == {1.2e-2}


def test_a_base_that_does_worst_and_failed_arms_at_a_gate(several):
    ran, _ = gone_through(several.but(gates=(SizeGate(size=0.25, keep=1),)), lambda trial: -WORSE[trial.arm])
    assert ran.stage.gates[0].kept == ("base", "relu")


def test_a_ladder_trains_every_arm_at_every_size(several, tmp_path):
    climbed = several.but(ladder=Ladder(sizes=(0.25, 0.5)), match=Matching(by=("params",), multiple=4, tolerance=0.02))
    ran, counts = gone_through(climbed)
    assert counts == [3 * 4 * 3] * 2
    sizes = {size: [arm.parameters for arm in arms] for size, arms in ran.smaller.items()}
    for size, parameters in sizes.items():
        base = ran.arms[0].parameters
        assert parameters[0] == pytest.approx(size * base, rel=0.05)
        assert all(each == pytest.approx(parameters[0], rel=0.02) for each in parameters)
    found = findings(ran.__class__(**{**ran.__dict__, "directory": tmp_path}))
    base, *others = found.climb.arms
    assert [len(rung.numbers) for rung in base.rungs] == [3, 3, 3]
    assert base.rungs[0].flops < base.rungs[1].flops < base.rungs[2].flops
    assert base.rungs[0].tokens == pytest.approx(0.25 * base.rungs[2].tokens, rel=0.2)
    assert base.law.exponent > 0
    crossing = {arm.name: arm.crossing for arm in others}
    assert crossing["one_head"].first
    report(found, tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "ladder.svg" in text
    assert "## Ladder" in text
    assert 'id="ladder"' in (tmp_path / "report.html").read_text()


def test_a_law_that_crosses_beyond_is_marked(several, tmp_path):
    def loss(trial):
        c = trial.run.steps * flops_of(trial.run) / 1e9
        slow = {"base": (2.0, 1.0), "one_head": (1.99, 1.03)}.get(trial.arm, (2.0, 1.0))
        return slow[0] + slow[1] * c**-0.3 + 1e-6 * trial.run.seed

    climbed = several.but(ladder=Ladder(sizes=(0.25, 0.5), beyond=300.0))
    ran, _ = gone_through(climbed, loss)
    found = findings(ran.__class__(**{**ran.__dict__, "directory": tmp_path}))
    assert found.climb.arms[1].crossing.beyond
    assert "**extrapolation**" in "\n".join(markdown(found, {}))


def test_a_rate_is_chosen_at_a_small_width_and_used_at_the_whole(several):
    mup = change(several.base, "architecture.initialisation.mup", {"base_width": 16})
    transferred = several.but(base=mup, tuning=ArmTuning(values=(3e-3, 6e-3, 1.2e-2), widen=0, size=0.25))
    ran, counts = gone_through(transferred)
    assert counts == [12, 12 + 12, 12 + 12]
    assert {trial.size for trial in ran.stage.tuning} == {0.25}
    assert {trial.value for trial in ran.stage.final} == {6e-3}
    assert all(trial.size == WHOLE for trial in ran.stage.final)
    with pytest.raises(DescriptionError, match=r"tuning.size = 0.25 .* takes muP"):
        several.but(tuning=ArmTuning(values=(3e-3, 6e-3), size=0.25))


def test_what_it_takes_counts_every_size(several):
    found = forecast(several.but(gates=(SizeGate(size=0.25, keep=1),), ladder=Ladder(sizes=(0.25, 0.5))), jobs=1)
    trials = {size: [each.trials for each in found.arms if each.arm.size == size] for size in (0.25, 0.5, 1.0)}
    assert trials == {0.25: [4, 4, 1, 1], 0.5: [3, 3], 1.0: [3, 3]}
    assert sizes_of(several) == ()
    assert len(resolve_arms(several)) == 4


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"gates": (SizeGate(size=0.5, keep=2), SizeGate(size=0.25, keep=1))}, "rising order"),
        ({"gates": (SizeGate(size=0.25, keep=1), SizeGate(size=0.5, keep=1))}, "fewer arms than the one before"),
        ({"gates": (SizeGate(size=0.25, keep=1, seed=2),)}, "is one of seeds"),
        ({"ladder": Ladder(sizes=(0.25, 0.5)), "metric": "accuracy"}, "a law is fitted to the loss"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(several, fields, said):
    with pytest.raises(DescriptionError, match=said):
        several.but(**fields)
