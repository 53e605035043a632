"""A step of reinforcement learning by its parts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import anyformer as af
from anyformer.cli import app
from anyformer.costs.inference import weight_bytes
from anyformer.costs.named_hardware import hardware_of
from anyformer.describe import UserError
from anyformer.planning.planner import plan_training
from anyformer.planning.queues.distributions import lengths
from anyformer.planning.queues.engine import EngineRules
from anyformer.planning.queues.sheet_steps import SheetSteps
from anyformer.planning.queues.simulate import Fleet, simulate
from anyformer.planning.reinforcement import RolloutBatch, RolloutSearch, heaviest
from anyformer.planning.serving import LayoutSearch
from anyformer.quantising import FORMATS

ON, MADE = hardware_of("h100"), af.architecture("llama-3.2-1b")
BATCH = RolloutBatch(16, 4, lengths("uniform(50, 100)"), lengths("uniform(20, 60)"))


def search(**changes):
    return RolloutSearch(**{"architecture": MADE, "batch": BATCH, "on": ON, "accelerators": 2, "reference": MADE, **changes})


@pytest.fixture(scope="module")
def steps():
    """Two accelerators do everything in turn, or one of each side."""
    return search().steps()


def test_a_step_is_made_of_its_parts(steps):
    """Answers as the simulation has them, scores as whole texts read once, updates as planned, weights at the link's rate."""
    together = next(step for step in steps if not step.apart)
    times = SheetSteps(LayoutSearch(MADE, 256, BATCH.texts.longest, ON, "bf16", ON.resolved(af.Plan())), together.engine)
    plain = replace(BATCH.texts, shared=BATCH.texts.shared * 0)
    shares = [plain.every(2 // together.engine.ranks, first) for first in range(2 // together.engine.ranks)]
    assert together.rollout == pytest.approx(max(simulate(Fleet(times, EngineRules()), own).span for own in shares), rel=0.03)
    assert together.seconds == pytest.approx(together.rollout + together.reference + together.learning + together.sync)
    length = BATCH.tokens // 64
    update = plan_training(MADE, ranks=2, batch_tokens=64 * length, length=length, hardware=ON, show=1).fastest[0]
    assert together.learning == pytest.approx(update.time.total)
    size = weight_bytes(MADE, FORMATS["bf16"]) / together.engine.tp
    assert together.sync == pytest.approx(size / (ON.link * ON.efficiency.network))


def test_sides_that_stand_apart_are_bound_by_the_slower_one(steps):
    assert {step.answering for step in steps} == {0, 1}
    for step in steps:
        assert step.accelerators == 2
        if step.apart:
            assert step.seconds == pytest.approx(max(step.rollout, step.reference + step.learning) + step.sync)
            assert 0 <= step.idle < 1
    assert search(batch=replace(BATCH, updates=2), reference=None).steps()[0].seconds >= steps[0].seconds - steps[0].reference
    teacher = af.architecture("llama-3-8b")
    assert search(reference=teacher).steps()[0].seconds >= steps[0].seconds, "on-policy distillation"


def test_scores_read_every_position_with_the_head(steps):
    layouts = LayoutSearch(MADE, 256, 200, ON, "bf16", ON.resolved(af.Plan()))
    layout = steps[0].engine
    scores, reads = (
        simulate(Fleet(SheetSteps(layouts, layout, scores=each), EngineRules()), BATCH.whole).span for each in (True, False)
    )
    assert scores > 1.05 * reads


def test_the_heaviest_shares_hold_the_longest_answer_and_the_most_tokens():
    texts = BATCH.texts
    shares = heaviest(texts, 6)
    assert max(share.output.max() for share in shares) == texts.output.max()
    sums = [int((texts.prompt + texts.output)[first::6].sum()) for first in range(6)]
    assert max(int((share.prompt + share.output).sum()) for share in shares) == max(sums)
    assert np.array_equal(BATCH.whole.prompt, texts.prompt + texts.output)


def test_what_fits_nowhere_is_refused():
    with pytest.raises(UserError, match="no way to divide 1 H100 SXM 80 GB holds both an engine and a training step"):
        search(architecture=af.architecture("llama-3-70b"), accelerators=1, reference=None).steps()
    with pytest.raises(UserError, match="prompts of a step are 0"):
        replace(BATCH, prompts=0)


def test_the_command_says_what_bounds_it():
    words = ["plan", "llama-3.2-1b", "--rl", "--gpus", "2", "--prompts", "8", "--answers", "2"]
    words += ["--prompt-tokens", "64", "--output-tokens", "16"]
    page, told = (CliRunner().invoke(app, [*words, *more], env={"COLUMNS": "200"}) for more in ((), ("--json",)))
    assert page.exit_code == told.exit_code == 0, page.output + told.output
    best = json.loads(told.output)[0]
    assert f"bound by {best['bound']}" in page.output.splitlines()[0]
    assert best["tokens"] == 16 * 80
    with pytest.raises(UserError, match="--serve, --finetune and --rl are different questions"):
        raise CliRunner().invoke(app, ["plan", "gpt2", "--rl", "--serve"]).exception
