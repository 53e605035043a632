"""Memory foretold: what does not fit is refused before any of it is taken, with what would fit."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from zoo import DECODERS

from anyformer.catalogue import architecture as catalogue
from anyformer.costs.available import left_to_the_group
from anyformer.costs.gathered import GatheredWeights
from anyformer.costs.holding import Holding
from anyformer.costs.memory_check import NotEnoughMemoryError, Processes, memory_warnings
from anyformer.costs.moments import PeakMemory
from anyformer.costs.peak import peak_memory
from anyformer.costs.step import PricedStep
from anyformer.operations import Shape
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


def test_a_process_holds_its_part_and_what_is_gathered():
    """Of every moment by itself: the largest of one process need not be that of one among several."""
    moments = [
        Holding(weights=100, gradients=20, optimiser=200, activations=50),
        Holding(weights=100, gradients=20, optimiser=200, activations=60),
        Holding(weights=100, gradients=60, optimiser=200, activations=30),
        Holding(weights=100, gradients=100, optimiser=200, temporaries=1),
    ]
    forward, loss, backward, update = moments
    peak = PeakMemory(300, at_loss=loss, in_backward=backward, at_update=update, in_forward=forward)
    assert Processes().shared(peak) == update.total
    gathered = GatheredWeights(root=40, layer=10, tied=50, outside=0.4)
    # 320 / 4 + 50 + 40 + 2 * 10; 320 / 4 + 60 + 40; 360 / 4 + 30 + 40 + 4 * 10; 400 / 4 + 1 + 2 * 40 + 50 + 2 * 10.
    assert [80 + 50 + 60, 80 + 60 + 40, 90 + 30 + 80, 100 + 1 + 150] == [190, 180, 200, 251]
    assert Processes(parts=4, gathered=gathered).shared(peak) == 251
    assert Processes(parts=4, here=3, gathered=gathered).shared(peak) == 3 * 251
    # Two stages: every process has the root's share once, and a half of its stage's layers.
    assert Processes(parts=4, stages=2, gathered=gathered).shared(peak) == 251 + 40
    wide = replace(peak, in_backward=replace(backward, temporaries=100))
    assert Processes(parts=4, gathered=gathered).shared(wide) == 300


def test_what_is_gathered_is_counted_from_the_weights():
    plan, untied = Plan(precision="fp32"), catalogue("llama-3-8b", tiny=True)
    weights = untied.trained_cost(Shape(source=1)).weights
    layers = {name: weight.count for name, weight in weights.items() if ".layers." in name}
    outside = sum(weight.count for name, weight in weights.items() if name not in layers)
    first = sum(count for name, count in layers.items() if ".layers.0." in name)
    found = GatheredWeights.of(untied, plan)
    assert (found.root, found.layer, found.tied) == (4 * outside, 4 * first, 0)
    assert found.outside == pytest.approx(outside / (outside + sum(layers.values())))
    tied = catalogue("gpt2", tiny=True)
    table = tied.trained_cost(Shape(source=1)).weights[tied.head_table[0]].count
    assert GatheredWeights.of(tied, plan).tied == 2 * 4 * table


def test_processes_of_one_machine_share_what_is_free():
    need = peak(batch=1)
    free = int(1.9 * need)
    assert training(free=free, batch=1) == []
    with pytest.raises(NotEnoughMemoryError, match="1 x 32 tokens in 2 processes needs"):
        training(free=free, batch=1, processes=Processes(here=2))
    # Divided, weights, gradients and moments are there once.
    training(free=free, batch=1, processes=Processes(parts=2, here=2))
    training(free=need // 2 + need // 4, batch=1, processes=Processes(parts=4))


def test_what_fits_in_no_way_is_said_so():
    with pytest.raises(NotEnoughMemoryError, match=r"one row with plan.checkpointing = 'full' still needs"):
        training(free=10_000)


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


def test_the_page_says_what_was_measured():
    place = Path(__file__).parents[2]
    rows = json.loads((place / "benchmarks" / "results" / "rank_memory.json").read_text())["rows"]
    ratios = [row["foretold"] / row["measured"] for row in rows]
    assert ratios == pytest.approx([row["ratio"] for row in rows], abs=1e-3)
    assert len(rows) == 8
    assert (
        f"it was {min(ratios):.2f} to {max(ratios):.2f} times what was measured in" in (place / "docs/cluster.md").read_text()
    )
