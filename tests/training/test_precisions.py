"""Training in every precision: it learns, and a run that was stopped ends with the same bits."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from itertools import product

import pytest
import torch
from rich.console import Console

from anyformer import checkpoint
from anyformer.checkpoint import directory_of
from anyformer.describe import DescriptionError, UserError, change_all
from anyformer.plan import Plan
from anyformer.precision import Bf16, Fp8, Fp16, Fp32, Mxfp8, Nvfp4, PureBf16, Tf32
from anyformer.training import resume, train
from anyformer.training.loss_scale import LossScale
from anyformer.training.optimisers.narrow_weights import narrowed, rounded_by_chance
from anyformer.training.precision import Host, check_units, resolve
from covering import covering, rest_slow

QUIET = Console(quiet=True)
PRECISIONS = {
    "fp32": Fp32(),
    "bf16": Bf16(),
    "pure_bf16": PureBf16(),
    "pure_bf16, by chance": PureBf16(rounding="stochastic"),
    "fp16": Fp16(scale=2.0**40, interval=2),
    "fp8": Fp8(least=16),
    "fp8, by channel": Fp8(least=16, scaling="channel"),
    "fp8, running": Fp8(least=16, scaling="running", history=3),
    "mxfp8": Mxfp8(least=32),
    "nvfp4": Nvfp4(least=16),
}


@pytest.fixture
def run(tiny, monkeypatch):
    monkeypatch.setattr(
        "anyformer.training.loop.measured_host", lambda device, plan: Host(device, {"fp32": 1e11, "bf16": 1e11})
    )
    return tiny


def digest(directory, step: int) -> str:
    """Of all weights, of the optimiser's state and of what the precision keeps."""
    names = ("model", "optimiser", "precision")
    files = [directory_of(directory, step) / f"{name}.safetensors" for name in names]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files if path.exists())).hexdigest()


@pytest.mark.parametrize("precision", PRECISIONS.values(), ids=PRECISIONS)
def test_a_resumed_run_ends_with_the_same_bits(run, tmp_path, precision):
    run = change_all(run, {"plan.precision": precision, "steps": 5})
    straight = train(run, tmp_path / "straight", console=QUIET)
    shutil.copytree(tmp_path / "straight", tmp_path / "parts")
    shutil.rmtree(directory_of(tmp_path / "parts", 5))
    resume(tmp_path / "parts", console=QUIET)
    assert straight.validation is not None
    assert straight.validation.loss < 5.6
    assert digest(tmp_path / "parts", 5) == digest(tmp_path / "straight", 5)


@pytest.mark.parametrize("scaling", ["tensor", "running"])
def test_emulated_fp8_learns_as_bf16_does(run, tmp_path, scaling):
    """A short form of benchmarks/precisions.py: after 24 updates the losses are close, and far from where they began."""
    losses = {}
    for precision in (Bf16(), Fp8(least=16, scaling=scaling)):
        changes = {"plan.precision": precision, "steps": 24, "optimiser.learning_rate": 1e-2, "schedule.warmup": 4}
        made = change_all(run, {**changes, "checkpoints.every": 24, "evaluation.every": 24})
        losses[precision.kind] = train(made, tmp_path / precision.kind, console=QUIET).validation.loss
    assert losses["bf16"] < 5
    assert losses["fp8"] == pytest.approx(losses["bf16"], abs=0.1)


def skipping(run, directory, **changes):
    """The metrics of a run in fp16 from a scale at which gradients overflow."""
    seldom = {"checkpoints.every": 24, "evaluation.every": 24}
    changes = {"plan.precision": Fp16(scale=2.0**30, interval=2), "steps": 24, **seldom, **changes}
    train(change_all(run, changes), directory, console=QUIET)
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == "train"]


def test_an_overflow_skips_updates_until_the_scale_fits(run, tmp_path):
    rows = skipping(run, tmp_path / "fp16")
    skipped = [row for row in rows if row.get("skipped")]
    assert rows[0] in skipped
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.02, "it learns again"
    assert all(row["gradient_norm"] is None for row in skipped)
    kept = checkpoint.read(directory_of(tmp_path / "fp16", 24) / "precision.safetensors")
    assert int(kept["loss_scale_skipped"]) == len(skipped)
    assert float(kept["loss_scale"]) == rows[-1]["loss_scale"]
    assert f"{len(skipped)} of 24 updates were skipped" in (tmp_path / "fp16" / "summary.json").read_text()


def test_skipped_updates_use_up_nothing_of_the_warm_up(run, tmp_path):
    """Rates are those of torch's schedule as transformers' Trainer steps it: only behind an update that was made."""
    rows = skipping(run, tmp_path / "fp16", **{"schedule.warmup": 10})
    made = change_all(run, {"steps": 24, "schedule.warmup": 10})
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=made.optimiser.learning_rate)
    theirs = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: made.schedule.factor(step, 24))
    assert sum(row.get("skipped", False) for row in rows) > 3
    for row in rows:
        assert row["learning_rate"] == pytest.approx(theirs.get_last_lr()[0], rel=1e-12)
        if not row.get("skipped"):
            optimiser.step()
            theirs.step()


def test_the_scale_is_that_of_a_plain_loop_and_of_torch(run, tmp_path):
    """Halve at an overflow, double after two good updates: the rule in four lines, and torch's own scaler."""
    rows = skipping(run, tmp_path / "fp16")
    scale, good = 2.0**30, 0
    theirs = torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=2)
    weight = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([weight], lr=0.0)
    for row in rows:
        skipped = row.get("skipped", False)
        scale, good = (scale / 2, 0) if skipped else (scale, good + 1)
        scale, good = (scale * 2, 0) if good == 2 else (scale, good)
        theirs.scale(weight.sum())
        weight.grad = torch.tensor([float("inf") if skipped else 1.0])
        theirs.step(optimiser)
        theirs.update()
        assert row["loss_scale"] == scale == theirs.get_scale()


def test_a_scaled_update_is_the_plain_one(run, tmp_path):
    """Weights after an update in fp16 do not depend on a scale that neither overflows nor underflows, but for rounding."""
    weights = []
    for scale in (2.0**6, 2.0**10):
        made = change_all(run, {"plan.precision": Fp16(scale=scale), "steps": 1, "optimiser.eps": 1e-3})
        weights.append(train(made, tmp_path / f"{scale}", console=QUIET).model.state_dict())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, atol=1e-5, rtol=1e-3)


def test_a_gradient_that_overflows_at_every_scale_ends_the_run(run, tmp_path):
    rule = Fp16(scale=2.0**40, smallest=2.0**39)
    with pytest.raises(UserError, match=r"at a loss scale of .*plan.precision = 'bf16'"):
        train(change_all(run, {"plan.precision": rule}), tmp_path / "fp16", console=QUIET)


def test_weights_in_bf16_follow_masters_in_fp32(run, tmp_path):
    """Steps far below the distance of two bf16 numbers add up in the copies, and the weights are these, rounded."""
    made = change_all(run, {"plan.precision": PureBf16(), "optimiser.learning_rate": 1e-5, "checkpoints.every": 8})
    trained = train(made, tmp_path / "run", console=QUIET)
    kept = checkpoint.read(directory_of(tmp_path / "run", 8) / "optimiser.safetensors")
    for name, weight in trained.model.named_parameters():
        assert weight.dtype == torch.bfloat16
        assert torch.equal(weight, kept[f"{name}/master"].bfloat16())
        assert not torch.equal(kept[f"{name}/master"], weight.float())
        assert kept[f"{name}/exp_avg"].dtype == torch.float32


def test_rounding_by_chance_has_the_mean_and_other_chances_at_each_key():
    """A quarter of the way from 1 to the next number, 1 + 2^-7, a quarter of all goes up: of those a quarter again."""
    x, up = torch.full((40_000,), 1 + 0.25 * 2**-7), 1 + 2**-7

    def lifted(key: int) -> torch.Tensor:
        rounded = torch.empty_like(x, dtype=torch.bfloat16)
        rounded_by_chance(x, rounded, key)
        assert {*rounded.tolist()} == {1.0, up}
        return rounded == up

    first, again, second = lifted(0x9E3779B9), lifted(0x9E3779B9), lifted(0x7F4A7C15)
    assert torch.equal(first, again)
    assert [float(each.float().mean()) for each in (first, second)] == pytest.approx([0.25, 0.25], abs=0.01)
    assert float((first & second).float().mean()) == pytest.approx(0.25**2, abs=0.01)
    odd = torch.tensor([math.inf, -math.inf, math.nan, 1.0, -up])
    kept = torch.empty_like(odd, dtype=torch.bfloat16)
    rounded_by_chance(odd, kept, 0x9E3779B9)
    torch.testing.assert_close(kept.float(), odd, rtol=0, atol=0, equal_nan=True)


class Adds:
    """A rule that adds the gradient."""

    def start(self, weight: torch.Tensor) -> dict[str, torch.Tensor]:
        return {}

    def change(self, weight, gradient, state, rate, decay):
        weight += gradient


def test_updates_too_small_to_be_seen_add_up_in_every_number():
    """64 updates of a quarter of the step between two numbers: 16 steps, give or take sqrt(64 * 3 / 16) by chance."""
    step, count = 2.0**-7, 64
    weight, gradient = torch.ones(20_000, dtype=torch.bfloat16), torch.full((20_000,), step / 4)
    rule = narrowed(Adds(), masters=False, key=7)
    state = rule.start(weight)
    for _ in range(count):
        rule.change(weight, gradient, state, 1.0, 0.0)
    steps = (weight.float() - 1) / step
    assert steps.mean().item() == pytest.approx(count / 4, abs=0.15)
    assert steps.std().item() == pytest.approx(math.sqrt(count * 3 / 16), rel=0.05), "chances anew at each update"


OPTIMISERS = ("adamw_8bit", "schedule_free", "sgd", "lion", "adafactor", "muon")
ROUNDINGS = ("masters", "stochastic")


@pytest.mark.parametrize(
    ("optimiser", "rounding"), rest_slow(product(OPTIMISERS, ROUNDINGS), covering(OPTIMISERS, ROUNDINGS, together=1))
)
def test_every_optimiser_moves_weights_in_bf16(run, tmp_path, optimiser, rounding):
    """The loss after a few updates is near that of weights in fp32, however they are rounded: by turns here."""
    losses = []
    for number, precision in enumerate((Bf16(), PureBf16(rounding=rounding))):
        changes = {"plan.precision": precision, "optimiser": {"kind": optimiser}, "schedule": {"kind": "constant"}, "steps": 3}
        made = change_all(run, {**changes, "checkpoints.every": 3, "evaluation.every": 3})
        losses.append(train(made, tmp_path / str(number), console=QUIET).validation.loss)
    assert losses[1] == pytest.approx(losses[0], abs=0.03)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"plan.precision": "pure_bf16", "average": {"kind": "ema"}}, "average keeps weights in fp32"),
        ({"plan.precision": "fp8", "tuning.adapter": {"kind": "lora", "rank": 2}}, "stands beside frozen matrices"),
        ({"plan.precision": {"kind": "fp8", "experts": True}}, "experts in fp8 are priced, not computed"),
        ({"plan.precision": "fp9"}, "did you mean 'fp8'"),
        ({"plan.precision": {"kind": "fp8", "scaling": "row"}}, "'tensor', 'channel' or 'running'"),
    ],
)
def test_what_does_not_go_together_is_refused(run, changes, says):
    with pytest.raises(DescriptionError, match=says):
        change_all(run, changes)


def test_units_that_a_device_lacks_are_named(run, tmp_path, monkeypatch):
    with pytest.raises(UserError, match="cpu has no TF32 units"):
        train(change_all(run, {"plan.precision": Tf32()}), tmp_path / "run", console=QUIET)
    (said,) = check_units(Plan(precision="nvfp4"), torch.device("cpu"))
    assert "emulated on cpu" in said
    assert check_units(Plan(precision="fp16"), torch.device("cpu")) == []
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (8, 6))
    with pytest.raises(UserError, match=r"capability is 8\.6, and 8-bit products start at 8\.9; take 'bf16'"):
        check_units(Plan(precision="fp8"), torch.device("cuda"))
    machine = Host(torch.device("cpu"), {"fp32": 1e11, "bf16": 1e11})
    monkeypatch.setattr("anyformer.training.precision.with_kernel", lambda plan, device, long: (plan, []))  # a trial of seconds
    with pytest.raises(UserError, match="'fp8' are not compiled yet"):
        resolve(Plan(precision="fp8", compile="on"), machine, long=True)
    assert resolve(Plan(precision="fp8"), machine, long=True)[0].compile == "off"
    with pytest.raises(UserError, match=r"tuning.base = 'nf4' are restored one by one"):
        resolve(Plan(precision="fp32", compile="on"), machine, "nf4", long=True)
    plan, notes = resolve(Plan(precision="fp32"), machine, "int8", long=True)
    assert plan.compile == "off"
    assert "tuning.base = 'int8'" in notes[0]


def test_half_a_gradient_and_all_of_it(run, tmp_path):
    """Micro-batches in fp16: the scaled gradients of two halves are those of the whole, but for rounding."""
    weights = []
    for pieces in (1, 2):
        made = change_all(run, {"plan.precision": "fp16", "accumulation": pieces, "steps": 1, "optimiser.eps": 1e-3})
        weights.append(train(made, tmp_path / f"{pieces}", console=QUIET).model.state_dict())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, atol=1e-4, rtol=1e-3)


def test_a_scale_may_fall_to_the_smallest_and_no_further():
    rule = Fp16(scale=8.0, smallest=2.0)
    scale = LossScale.of(rule)
    assert not scale.exhausted
    scale.overflowed()
    assert (scale.value, scale.exhausted) == (4.0, False), "one more makes it the smallest"
    scale.overflowed()
    assert (scale.value, scale.exhausted) == (2.0, True)
