"""`minutes` hold the whole command: fitted, kept when the machine gets slower, and as determined as steps once written down."""

from __future__ import annotations

import io
import shutil

import pytest
import torch
from rich.console import Console

from anyformer import checkpoint
from anyformer.describe import change_all
from anyformer.training import budget, loop, read_run, resume, train, trainer
from anyformer.training.budget import Durations, TimeBudget, fit
from anyformer.training.display import COMPILING
from anyformer.training.held_out import corpus_of
from anyformer.training.journal import read_metrics
from anyformer.training.passes import MicroBatchLoss
from anyformer.training.precision import Host
from anyformer.training.step import Updates
from anyformer.training.timing import timed
from anyformer.training.trainer import Trainer

QUIET = Console(quiet=True)


class Clock:
    """Seconds that pass only when something says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """A micro-batch takes half a second, a batch of evaluation 3 s, the data 10 s."""
    clock = Clock()
    clock.micro_batch = 0.5
    summed, evaluate, corpus_together = MicroBatchLoss.summed, trainer.evaluate, loop.corpus_together

    def slow_loss(*given):
        clock.now += clock.micro_batch
        return summed(*given)

    def slow_evaluate(model, objective, feed, plan, *, most, **more):
        clock.now += 3 * -(-most // feed.batch)
        return evaluate(model, objective, feed, plan, most=most, **more)

    def slow_corpus(run, ranks):
        clock.now += 10
        return corpus_together(run, ranks)

    monkeypatch.setattr(budget, "clock", clock)
    monkeypatch.setattr(budget, "worked", clock)
    monkeypatch.setattr(MicroBatchLoss, "summed", slow_loss)
    monkeypatch.setattr(trainer, "evaluate", slow_evaluate)
    monkeypatch.setattr(loop, "corpus_together", slow_corpus)
    return clock


@pytest.fixture
def two_minutes(tiny):
    return change_all(tiny, {"steps": None, "minutes": 2.0, "evaluation.every": 20, "evaluation.final_tokens": 10**6})


@pytest.mark.parametrize("left", [-5.0, 0.0, 3.0, 30.0, 3000.0])
@pytest.mark.parametrize("took", [Durations(0.01, 0.005, 0.01, 10**9), Durations(2.0, 1.0, 5.0)])
def test_what_is_fitted_fits(tiny, left, took):
    found = fit(tiny, took, left)
    per_update = took.update + took.batch * tiny.evaluation.batches / tiny.evaluation.every + took.save / tiny.checkpoints.every
    assert 1 <= found.tokens <= tiny.evaluation.final_tokens
    assert found.steps == 1 or found.steps * per_update + found.tail <= left
    assert found.steps == 1 or found.steps * per_update + found.tail > 0.7 * left
    assert found.tokens <= max(tiny.batch * tiny.length, 0.11 * left / took.batch * tiny.batch * tiny.length)


def test_the_last_evaluation_has_a_tenth_of_the_time(tiny):
    """5 batches of 2 s in 100 s, and 4 s for the picture and the sample."""
    found = fit(tiny, Durations(update=1.0, batch=2.0, save=0.0), 100.0)
    assert (found.tokens, found.tail) == (5 * tiny.batch * tiny.length, 14.0)


@pytest.mark.parametrize(("left", "times"), [(10.0, 1), (30.0, 2), (100.0, 4)])
def test_a_long_update_is_timed_less_often(tiny, clock, left, times):
    """Of 1 s: a second time where it takes less than a twentieth of what is left, two more where less than a fiftieth."""
    trainer = Trainer.start(tiny, corpus_of(tiny), Host(torch.device("cpu"), {"fp32": 1e9}))
    began = clock.now
    found = timed(trainer, left)
    assert clock.now - began == times * 1.0 + 3.0
    assert (found.update, found.batch, found.counted) == (1.0, 3.0, 0)
    assert all(parameter.grad is None for parameter in trainer.model.parameters()), "nothing of it is learnt"


def test_a_baseline_counts_all_tokens_of_the_training(tiny, clock):
    run = change_all(tiny, {"evaluation.baseline": True})
    trainer = Trainer.start(run, corpus_of(run), Host(torch.device("cpu"), {"fp32": 1e9}))
    assert timed(trainer, 10.0).counted == trainer.training.whole


def test_the_whole_command_ends_within_its_minutes(two_minutes, clock, tmp_path):
    began = clock.now
    trained = train(two_minutes, tmp_path / "run", console=QUIET)
    run = read_run(tmp_path / "run")
    assert (run.minutes, run.steps) == (None, trained.step)
    assert 0.75 * 120 < clock.now - began <= 120
    assert trained.deadline == began + 120
    # The last evaluation takes no more than a tenth of what was left, though the split is larger.
    assert trained.validation.seen == run.evaluation.final_tokens < trained.validation.whole


def test_the_seconds_of_compiling_are_no_pace(two_minutes, clock, tmp_path, monkeypatch):
    """The first micro-batch takes 40 s, which is not what an update takes."""

    def compiled(summed, **how):
        compiling = [40.0]

        def call(*given):
            clock.now += compiling.pop() if compiling else 0.0
            return summed(*given)

        return call

    monkeypatch.setattr(torch, "compile", compiled)
    monkeypatch.setattr(loop, "resolve", lambda plan, machine, base, long: (plan, []))
    run = change_all(two_minutes, {"plan.compile": "on", "plan.precision": "fp32"})
    console = Console(record=True, width=200, file=io.StringIO())
    assert train(run, tmp_path / "run", console=console).step > 30
    assert console.export_text().count(COMPILING) == 1, "to time an update"
    train(change_all(run, {"minutes": None, "steps": 1}), tmp_path / "one", console=console)
    assert f"{COMPILING}\nstep 1/1" in console.export_text()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"steps": 199}, False),
        ({"steps": 200}, True),
        ({"steps": None, "minutes": 1.9}, False),
        ({"steps": None, "minutes": 2.0}, True),
    ],
)
def test_a_run_of_200_updates_or_two_minutes_is_worth_compiling(tiny, changes, expected):
    assert loop.lasts(change_all(tiny, changes)) == expected


def test_a_machine_that_gets_slower_shortens_the_run_in_the_open(two_minutes, clock, tmp_path, monkeypatch):
    began, update = clock.now, Updates.update

    def slower(self, batch, *more):
        clock.micro_batch = 0.5 if batch.step < 30 else 1.5
        return update(self, batch, *more)

    monkeypatch.setattr(Updates, "update", slower)
    run = change_all(two_minutes, {"checkpoints.keep": 50, "checkpoints.every": 5})
    console = Console(record=True, quiet=False, width=200, file=open("/dev/null", "w"))  # noqa: SIM115
    trained = train(run, tmp_path / "run", console=console)
    assert clock.now - began <= 1.06 * 120
    changes = [row for row in read_metrics(tmp_path / "run") if row["kind"] == "shortened"]
    assert changes
    assert trained.step == changes[-1]["new"] == read_run(tmp_path / "run").steps < changes[0]["old"]
    assert "machine got slower" in console.export_text()
    # As determined as any run: continued from the shortening on, it ends with the same bits.
    at = changes[-1]["step"]
    assert at in checkpoint.steps(tmp_path / "run")
    for step in checkpoint.steps(tmp_path / "run"):
        if step > at:
            shutil.rmtree(checkpoint.directory_of(tmp_path / "run", step))
    again = resume(tmp_path / "run", console=QUIET)
    assert again.step == trained.step
    for weight, other in zip(again.model.parameters(), trained.model.parameters(), strict=True):
        assert torch.equal(weight, other)


def test_text_that_eats_the_minutes_is_said_and_leaves_one_update(two_minutes, clock, tmp_path):
    console = Console(record=True, width=400, file=open("/dev/null", "w"))  # noqa: SIM115
    trained = train(change_all(two_minutes, {"minutes": 0.15}), tmp_path / "run", console=console)
    assert trained.step == 1
    assert trained.validation.seen <= 4 * 32
    text = console.export_text()
    assert "10 s of them to prepare the text: one update only" in text
    assert f"evaluating {trained.validation.seen:,} of {trained.validation.whole:,} held-out tokens, evenly sampled" in text


def test_one_slow_update_at_the_start_is_not_believed(clock):
    found = TimeBudget(100.0, clock.now)
    assert found.shortened(1, 1000) == 1000
    clock.now += 5  # 50 times too slow, and not yet a tenth of the time
    assert found.shortened(2, 1000) == 1000
    clock.now += 6
    assert found.shortened(300, 1000) == 1000
    clock.now = found.began + 100
    assert found.shortened(400, 1000) == 400


def test_more_minutes_are_so_many_more_updates(tiny, clock, tmp_path):
    train(tiny, tmp_path / "run", console=QUIET)
    began = clock.now
    more = resume(tmp_path / "run", {"minutes": 1.0, "evaluation.every": 100}, console=QUIET)
    assert clock.now - began <= 60
    assert more.step == read_run(tmp_path / "run").steps > tiny.steps + 20


def test_the_end_has_more_time_where_the_core_is_shared(tiny, clock, monkeypatch):
    """Else the sample is cut off after a word: a batch of evaluation takes 3 s, in which the thread computes for 1."""
    monkeypatch.setattr(budget, "worked", lambda: clock.now / 3)
    found = timed(Trainer.start(tiny, corpus_of(tiny), Host(torch.device("cpu"), {"fp32": 1e9})), 100.0)
    assert found.shared == pytest.approx(3.0)
    alone, shared = (fit(tiny, Durations(1.0, 1.0, 0.0, shared=times), 100.0) for times in (1.0, 3.0))
    assert shared.tail - alone.tail == pytest.approx(2 * budget.ENDING)


def test_an_update_is_timed_with_its_optimiser(tiny, clock, monkeypatch):
    """On a copy: neither weights nor moments of the run change."""
    steps, step = [], torch.optim.AdamW.step

    def slow_step(optimiser, *more):
        clock.now += 5.0
        steps.append(optimiser)
        return step(optimiser, *more)

    monkeypatch.setattr(torch.optim.AdamW, "step", slow_step)
    trainer = Trainer.start(tiny, corpus_of(tiny), Host(torch.device("cpu"), {"fp32": 1e9}))
    before = {name: weight.clone() for name, weight in trainer.model.named_parameters()}
    assert timed(trainer, 1000.0).update == 1.0 + 5.0
    assert steps
    assert not any(each is trainer.trainee.optimiser for each in steps)
    assert not trainer.trainee.optimiser.state
    assert all(torch.equal(weight, before[name]) for name, weight in trainer.model.named_parameters())
