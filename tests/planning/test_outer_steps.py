"""Outer steps, what they wait for and send; checkpoint traffic, energy and price: by hand, and as published."""

from __future__ import annotations

from itertools import pairwise

import pytest

from anyformer.catalogue import architecture
from anyformer.costs.named_hardware import hardware_of
from anyformer.describe import UserError
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.planning.bill import CheckpointTraffic, RunBill
from anyformer.planning.coupling import EVERY_STEP, couplings
from anyformer.planning.fabric import Fabric, Tier
from anyformer.planning.failures import DAY, HOUR, Saves
from anyformer.planning.outer_steps import PUBLISHED_LOSSES, OuterSteps
from anyformer.planning.planner import plan_training

BF16 = Plan(precision="bf16")
MODEL = "pythia-410m"
REGIONS = Fabric((Tier("pod", 16, 1e10), Tier("region", 32, 1e8, 0.01)))


@pytest.fixture(scope="module")
def planned():
    return plan_training(
        architecture(MODEL), ranks=128, batch_tokens=512 * 2048, length=2048, hardware="h100", plan=BF16, fabric=REGIONS, show=1
    )


@pytest.fixture(scope="module")
def ways(planned):
    return couplings(architecture(MODEL), planned, BF16)


def test_outer_steps_wait_for_what_does_not_travel_beside_them():
    """A billion numbers in fp32 among 4 are 6 GB, 3/2 of 4. At 1 GB/s they take 6 s; in 4 fragments 1.5 s each."""
    whole = OuterSteps(100)
    assert whole.exchanged(10**9, 4) == 6 * 10**9
    assert whole.exposed(6.0, 0.5, 1.0) == pytest.approx(6.5 / 100)
    assert OuterSteps(100, bits=4, fragments=4).exchanged(10**9, 4) == 6 * 10**9 // 8
    streamed = OuterSteps(100, fragments=4, delay=1)
    assert streamed.exposed(6.0, 0.5, 1.0) == pytest.approx(4 * (1.5 + 0.5 - 1.0) / 100)
    assert streamed.exposed(6.0, 0.5, 2.0) == 0


def test_rarer_shorter_and_later_exchanges_never_wait_longer():
    for field, values in (("every", (8, 50, 100, 500)), ("delay", (0, 1, 2))):
        waits = [OuterSteps(**{"every": 8, "fragments": 4, field: value}).exposed(9.0, 0.1, 1.0) for value in values]
        assert all(first >= then for first, then in pairwise(waits))
        assert waits[0] > waits[-1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"every": 0}, "every of outer steps is 1 or more, got 0"),
        ({"every": 9, "bits": 0}, "bits of outer steps is 1 or more, got 0"),
        ({"every": 9, "delay": -1}, "delay of outer steps is a number of inner steps, 0 or more, got -1"),
        ({"every": 9, "fragments": 5, "delay": 2}, "5 fragments that travel for 2 inner steps do not fit into the 9"),
    ],
)
def test_outer_steps_that_cannot_be_are_refused(given, words):
    with pytest.raises(UserError, match=words):
        OuterSteps(**given)


def test_streaming_exchanges_the_share_of_bits_that_is_published():
    """400 times fewer than gradients in bf16 every step: table 1 prints terabytes of both, and so does the definition."""
    found = PUBLISHED_LOSSES["streaming-diloco"]
    for synchronous, outer in found.exchanged:
        assert synchronous / outer == pytest.approx(400, rel=0.005)
    every_step = OuterSteps(1, bits=16).exchanged(10**9, 2)
    assert every_step * found.outer.every / found.outer.exchanged(10**9, 2) == 400
    assert PUBLISHED_LOSSES["diloco"].outer == OuterSteps(500)


def test_published_losses_are_as_printed():
    assert PUBLISHED_LOSSES["diloco"].rows[0][1:] == (15.30, 15.02)
    assert [row[1:] for row in PUBLISHED_LOSSES["streaming-diloco"].rows] == [(2.67, 2.66), (2.52, 2.51), (2.45, 2.45)]
    assert all("arXiv" in each.source for each in PUBLISHED_LOSSES.values())


def test_regions_train_alone_between_outer_steps(planned, ways):
    """128 accelerators in 4 regions of 32, each with a quarter of the sequences; of 3.2 GB/s out of one 80 % are reached."""
    assert [each.name for each in ways] == [EVERY_STEP, "DiLoCo", "Streaming DiLoCo"]
    together, diloco, streaming = ways
    assert together.candidate == planned.fastest[0]
    assert (together.step, together.mfu) == (planned.fastest[0].time.total, planned.fastest[0].mfu)
    size = 2 * 4 * architecture(MODEL).cost(Shape(), Plan()).parameters * 3 // 4
    for each in (diloco, streaming):
        assert (each.replicas, each.candidate.layout.ranks, each.candidate.layout.sequences) == (4, 32, 128)
        assert each.accelerators == 128
        assert len(each.candidate.beyond) == 1, "pods alone"
        assert each.tokens_per_second == pytest.approx(512 * 2048 / each.step)
    assert diloco.exposed == pytest.approx((size / 2.56e9 + 6 * 0.01) / 500)
    assert diloco.leaving == size / 500
    assert diloco.busy == pytest.approx(size / 2.56e9 / 500 / diloco.step)
    hidden = size / 8 / 8 / 2.56e9 + 6 * 0.01 - diloco.candidate.time.total
    assert streaming.exposed == pytest.approx(max(hidden, 0) * 8 / 100)
    assert together.leaving == pytest.approx(planned.fastest[0].beyond[-1] * 32)
    assert diloco.step < together.step
    assert together.busy > 10 * diloco.busy


def test_inner_steps_are_those_that_are_asked_for(planned, ways):
    _, often, streamed = couplings(architecture(MODEL), planned, BF16, 50)
    assert (often.outer, streamed.outer.every) == (OuterSteps(50), 50)
    assert often.exposed == pytest.approx(10 * ways[1].exposed)


def test_one_pod_has_no_ways():
    alone = plan_training(architecture("gpt2"), ranks=8, batch_tokens=8 * 1024, length=1024, fabric=REGIONS)
    assert couplings(architecture("gpt2"), alone, BF16) == ()


def test_checkpoints_take_their_share_of_the_storage():
    """A terabyte every 90 s of work and 10 s of waiting, written in 30 s."""
    traffic = CheckpointTraffic(10**12, Saves(10.0, 30.0, 30.0), 90.0)
    assert traffic.share == pytest.approx(0.3)
    assert traffic.daily == pytest.approx(10**12 * DAY / 100)


@pytest.mark.parametrize(("hours", "printed"), [(809_472, 356), (82_432, 36), (530_432, 233), (1_022_362, 449)])
def test_energy_is_that_of_the_table_of_llama(hours, printed):
    """MWh of A100 of 400 W with a PUE of 1.1 (Touvron et al. 2023, arXiv 2302.13971, table 15)."""
    bill = RunBill(1, hours * HOUR, hardware_of("a100").power, 0.0)
    assert bill.energy / 1e6 == pytest.approx(printed, abs=1)


def test_price_is_that_of_deepseek_v3():
    """2.788 M hours of H800 at 2 dollars are 5.576 M (arXiv 2412.19437, table 1); nobody prints their power."""
    bill = RunBill(2048, 2.788e6 / 2048 * HOUR, hardware_of("h800").power, 2.0)
    assert bill.price == pytest.approx(5.576e6)
    assert bill.energy is None


def test_bills_that_cannot_be_are_refused():
    for given, words in (({"pue": 0.9}, "pue of a run is a number, 1 or more, got 0.9"), ({"rate": -1.0}, "rate of a run")):
        with pytest.raises(UserError, match=words):
            RunBill(**{"accelerators": 1, "wall": 1.0, "power": 1.0, "rate": 1.0} | given)
