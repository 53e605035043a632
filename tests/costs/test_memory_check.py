"""Memory foretold: what does not fit is refused before any of it is taken, with what would fit."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from benchmarks.rank_memory import TRIALS, Trial, foretold
from zoo import DECODERS

from anyformer.catalogue import architecture as catalogue
from anyformer.costs.available import left_to_the_group
from anyformer.costs.flight import Flight
from anyformer.costs.gathered import GatheredWeights
from anyformer.costs.holding import Holding
from anyformer.costs.member import Member
from anyformer.costs.memory_check import NotEnoughMemoryError, Processes, memory_warnings
from anyformer.costs.moments import PeakMemory
from anyformer.costs.peak import peak_memory
from anyformer.costs.step import PricedStep
from anyformer.plan import Plan

PLAN = Plan(precision="fp32")
TINY = DECODERS["llama"]


def peak(**more) -> int:
    asked = {"batch": 64, "length": 32, "plan": PLAN, **more}
    return peak_memory(TINY, **asked).total


def training(free: int, **more) -> list[str]:
    return list(memory_warnings(PricedStep(TINY), **{"batch": 64, "length": 32, "plan": PLAN, "free": free, **more}))


def test_what_fits_passes_and_what_nearly_fills_the_memory_is_said():
    need = peak()
    assert training(free=3 * need) == []
    (line,) = training(free=int(1.1 * need))
    assert re.search(r"a training step will take .* of the .* \(\d\d%\)", line)


def test_what_does_not_fit_is_refused_with_what_would():
    free = int(0.55 * peak())
    with pytest.raises(NotEnoughMemoryError, match="64 x 32 tokens needs") as found:
        training(free=free)
    message = str(found.value)
    pieces, batch = (int(re.search(rf"{name} = (\d+)", message)[1]) for name in ("accumulation", "batch"))
    assert 64 % pieces == 0
    training(free=free, accumulation=pieces)
    training(free=free, batch=batch)
    with pytest.raises(NotEnoughMemoryError):
        training(free=free, accumulation=pieces // 2)
    assert "plan.checkpointing = 'full'" in message


GATHERED = GatheredWeights(root=40, head=30, layer=10, tied=50, root_gradients=40, layer_gradients=10, ways=4)
MEMBER = Member(kept=0.25, learnt=0.25, saved=0.5, layer=0.02, logits=0.5, of_logits=0.25, gathered=GATHERED)
STILL = Holding(weights=100, optimiser=200)
PASSING = STILL + Holding(gradients=60, activations=400, temporaries=100)


def moments(**given: Holding) -> PeakMemory:
    """A peak of which the other moments hold nothing."""
    return PeakMemory(0, **{field.name: given.get(field.name, Holding()) for field in fields(PeakMemory)[1:]})


@pytest.mark.parametrize(
    ("peak", "bytes"),
    [
        # A quarter of what stays, half of what is saved, and the weights outside the layers with the buffer of one layer.
        (moments(in_forward=STILL + Holding(activations=500)), 75 + 250 + 40 + 10),
        # Of 80 bytes of logits a half is saved, and a quarter of their gradient made.
        (moments(at_loss=STILL + Holding(activations=400, logits=80, temporaries=100)), 75 + 200 + 40 + 20 + 10 + 40 + 10),
        (moments(in_backward=PASSING, at_update=Holding(gradients=100)), 90 + 200 + 50 + 40 + 30 + 10),
        # Four layers' bytes, without the 4 bytes that a layer saved.
        (
            moments(in_layers=PASSING, at_loss=Holding(activations=400), at_update=Holding(gradients=100)),
            90 + 200 + 50 + 40 + 30 + 40 - 4,
        ),
        (moments(at_update=STILL + Holding(gradients=100)), 100 + 2 * 40 + 50 + 10),
    ],
)
def test_a_process_holds_its_part_and_what_is_gathered(peak, bytes):
    """Of every moment by itself: the largest of one process need not be that of one among several."""
    assert Processes((MEMBER,)).shared(peak) == bytes
    assert Processes((replace(MEMBER, kept=0.0, saved=0.0), MEMBER), here=3).shared(peak) == 3 * bytes
    assert Processes().shared(peak) == peak.total


def test_micro_batches_in_a_pipeline_are_held_together():
    """The first gradients come when all are on their way, unless more follow."""
    peak = moments(at_loss=STILL + Holding(gradients=100, activations=400))
    first = Member(kept=0.25, learnt=0.25, saved=0.5, flight=Flight(2))
    assert [first.most(peak, accumulation) for accumulation in (2, 3)] == [75 + 400, 100 + 400]
    assert replace(first, flight=Flight(1)).most(peak, 3) == 100 + 200
    # Three of two chunks of micro-batches, beside the gradients of one of them, and where more follow beside those of both.
    chunks = replace(first, kept=0.5, learnt=0.5, flight=Flight(3, 2, 2))
    assert [chunks.most(peak, accumulation) for accumulation in (1, 2, 3)] == [150 + 200, 150 + 25 + 300, 150 + 50 + 300]
    # Gradients of outputs of two micro-batches wait for the second half of their backward passes.
    layers = replace(peak, in_layers=STILL + Holding(gradients=100))
    apart = replace(first, flight=Flight(2, halves=2, waiting=0.25))
    assert [apart.most(layers, accumulation) for accumulation in (2, 3)] == [75 + 400 + 200, 100 + 400 + 200]


def test_weights_that_stay_whole_are_held_in_every_pass():
    kept = replace(MEMBER, learnt=0.5, gathered=replace(GATHERED, kept=60, kept_gradients=60))
    assert Processes((kept,)).shared(moments(in_forward=STILL + Holding(activations=500))) == 75 + 250 + 40 + 60 + 10
    passing = moments(in_layers=PASSING, at_loss=Holding(activations=400), at_update=Holding(gradients=100))
    # Half of 60 bytes of gradients; no more of a layer than its newest gradients, without what it saved.
    assert Processes((kept,)).shared(passing) == 75 + 30 + 200 + 50 + 40 + 30 + 60 + 10 - 4
    ending = moments(at_update=STILL + Holding(gradients=100))
    assert Processes((kept,)).shared(ending) == 100 + 2 * (40 + 60) - (40 + 60) // 4 + 40 // 4


def test_processes_of_one_machine_share_what_is_free():
    need = peak(batch=1)
    free = int(1.9 * need)
    assert training(free=free, batch=1) == []
    with pytest.raises(NotEnoughMemoryError, match=r"1 x 32 tokens in 2 processes needs .* for all processes of this machine"):
        training(free=free, batch=1, processes=Processes(here=2))
    # Divided, weights, gradients and moments are there once.
    half, quarter = (Member(kept=part, learnt=part) for part in (0.5, 0.25))
    training(free=free, batch=1, processes=Processes((half,), here=2))
    training(free=need // 2 + need // 4, batch=1, processes=Processes((quarter,)))


def test_what_fits_in_no_way_is_said_so():
    with pytest.raises(NotEnoughMemoryError, match=r"one row with plan.checkpointing = 'full' still needs"):
        training(free=10_000)
    # Weights and moments are there whatever the length; a long row of a small model is not.
    with pytest.raises(NotEnoughMemoryError, match=r"plan\.mesh\.shard.*tuning\.adapter.*'adamw_8bit'") as found:
        list(memory_warnings(PricedStep(catalogue("gpt2")), batch=1, length=8, plan=PLAN, free=10**6))
    assert "shorter length" not in str(found.value)
    with pytest.raises(NotEnoughMemoryError, match="shorter length"):
        training(free=10_000, length=100_000)


def test_a_huge_batch_is_refused_by_arithmetic():
    gpt2 = catalogue("gpt2")
    with pytest.raises(NotEnoughMemoryError, match=r"1,000,000,000 x 1,024 tokens needs .* GB"):
        list(memory_warnings(PricedStep(gpt2), batch=10**9, length=1024, plan=PLAN, free=23 * 10**9))
    # In pieces of a row the tokens alone are too many.
    with pytest.raises(NotEnoughMemoryError):
        list(memory_warnings(PricedStep(gpt2), batch=10**9, length=1024, plan=PLAN, accumulation=10**9, free=23 * 10**9))


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({"memory.max": "1000", "memory.current": "900", "memory.stat": "anon 5\ninactive_file 300\n"}, 400),
        ({"memory.max": "max", "memory.current": "900"}, None),
        ({"memory/memory.limit_in_bytes": "500", "memory/memory.usage_in_bytes": "600"}, 0),
        ({}, None),
    ],
)
def test_limits_of_a_control_group(tmp_path: Path, files, left):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert left_to_the_group(tmp_path) == left


def test_the_committed_ratios_are_those_of_their_rows():
    rows = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "rank_memory.json").read_text())["rows"]
    assert [(row["model"], row["mesh"]) for row in rows] == [(trial.model, trial.mesh) for trial in TRIALS]
    for row in rows:
        assert row["measured"] == row["grown"] - row["tiny"]
        assert row["ratio"] == pytest.approx(row["foretold"] / row["measured"], abs=1e-3)
        assert 0.95 <= row["ratio"] <= 1.05, row


def test_what_was_measured_is_still_foretold():
    """The table stands for the functions that refuse a run."""
    rows = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "rank_memory.json").read_text())["rows"]
    for row in rows[:2]:
        trial = Trial(row["model"], row["mesh"])
        told = [foretold(each.run(Path(__file__)), trial.processes) for each in (trial, replace(trial, tiny=True))]
        assert told[0] - told[1] == row["foretold"], row
