"""Pods and regions: bytes and seconds by hand, one level as before, and never faster with more or slower levels."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from anyformer.catalogue import architecture
from anyformer.costs.hardware import Efficiency, Hardware
from anyformer.costs.memory import States
from anyformer.costs.named_hardware import hardware_of
from anyformer.describe import UserError
from anyformer.plan import Plan
from anyformer.planning.dealing import stages
from anyformer.planning.fabric import Fabric, Tier, crossed, crossing_seconds, default, used
from anyformer.planning.layout import Layout
from anyformer.planning.planner import Machine, plan_training, price_layout
from anyformer.planning.stages import row_of
from anyformer.planning.step import sent, step_time

BF16 = Plan(precision="bf16")
SHARES = Efficiency(matrix=0.5, attention=0.25, memory=0.8, elementwise=0.8, network=0.5, overlap=0.5, capacity=0.9)
TOY = Hardware("toy", "toy", {"bf16": 1e15}, 1e12, 1e12, 4e11, 5e10, 8, "made up", SHARES)
PODS = Fabric((Tier("pod", 16, 5e9, 1e-3),))
REGIONS = Fabric((Tier("pod", 16, 5e9, 1e-3), Tier("region", 32, 1e8, 1e-2)))
LAYOUTS = (
    Layout(dp=64),
    Layout(dp=8, fsdp=8, sharded="optimiser"),
    Layout(fsdp=64, micro_batches=3, sharded="weights"),
    Layout(dp=4, fsdp=8, tp=2, micro_batches=2, sharded="gradients"),
    Layout(dp=4, fsdp=2, tp=4, pp=2, micro_batches=4, sharded="optimiser"),
)


@pytest.fixture(scope="module")
def row():
    return row_of(architecture("pythia-160m"), 512, BF16)


def parts(row, layout):
    return stages(row, layout.pp, layout.chunks)


def seconds(row, layout, fabric):
    return step_time(row, parts(row, layout), layout, Machine(TOY, "bf16", fabric)).total


def test_gradients_leave_a_pod_once_they_are_summed_in_it(row):
    """64 replicas, pods of 16, regions of 32: 2 (2 - 1) / 2 of G / 16 and of G / 32."""
    (stage,) = parts(row, Layout(dp=64))
    size = 4 * stage.parameters.total
    assert crossed(row, stage, Layout(dp=64), REGIONS) == (size // 16, size // 32)
    assert crossed(row, stage, Layout(dp=64), PODS) == (2 * (size // 16) * 3 // 4,)
    # Two ranks of each product: eight replicas in a pod, each with half the weights; norms' on both.
    (beyond,) = crossed(row, stage, Layout(dp=32, tp=2), PODS)
    assert beyond == 2 * (4 * stage.parameters.dense(2) // 8) * 3 // 4


def test_what_is_sharded_over_pods_leaves_them_by_a_ring(row):
    """Of 2 m copies in bf16 and m gradients 63/64, and of these a sixteenth for each of a pod."""
    (stage,) = parts(row, Layout(fsdp=64))
    count = stage.parameters.total
    (beyond,) = crossed(row, stage, Layout(fsdp=64, micro_batches=3, sharded="weights"), PODS)
    assert beyond == pytest.approx((6 * 2 + 3 * 4) * count * 63 / 64 / 16, rel=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=str)
def test_what_leaves_is_part_of_what_is_sent(row, layout):
    """In a pod, between pods, between regions: together one all-reduce over all replicas."""
    (stage,) = parts(row, layout)
    whole = sent(row, stage, layout, 8).gradients
    inside = sent(row, stage, replace(layout, dp=layout.dp // 4), 8).gradients
    assert inside + sum(crossed(row, stage, layout, REGIONS)) == pytest.approx(whole, rel=1e-6)


def test_experts_leave_a_pod_as_often_as_they_are_there():
    """Mixtral on 64 ranks, 8 to the experts: 8 copies of each expert, 2 of them in a pod of 16."""
    row = row_of(architecture("mixtral-8x7b"), 512, BF16)
    (stage,) = stages(row, 1, 1)
    layout = Layout(dp=8, fsdp=8, ep=8, sharded="optimiser")
    (beyond,) = crossed(row, stage, layout, PODS)
    dense, expert = 4 * stage.parameters.dense(1), 4 * stage.parameters.of_experts(8)
    assert beyond == 2 * (dense // 16) * 3 // 4 + 2 * (expert // 2) * 3 // 4


def test_levels_take_their_time_one_after_the_other():
    """Half of the bandwidth is reached; rings of 2 pods and 2 regions take 2 steps each."""
    layout = Layout(dp=64)
    assert crossing_seconds((10**9, 10**8), layout, REGIONS, 0.5) == pytest.approx(1 / 2.5 + 2e-3 + 0.1 / 0.05 + 2e-2)
    assert crossing_seconds((10**9,), layout, PODS, 0.5) == pytest.approx(1 / 2.5 + 6e-3)


def test_transfers_beyond_a_pod_hide_behind_the_last_backward_pass_alone(row):
    layout = Layout(dp=64, micro_batches=4, sharded="optimiser")
    machine = Machine(TOY, "bf16", REGIONS)
    (stage,) = parts(row, layout)
    found = step_time(row, (stage,), layout, machine)
    beyond = crossed(row, stage, layout, REGIONS)
    near = (sent(row, stage, layout, 8).gradients - sum(beyond)) / (4e11 * 0.5)
    near += 2 * len(stage.units) * 7 * 5e-6
    far = crossing_seconds(beyond, layout, REGIONS, 0.5)
    assert found.data == pytest.approx(near + far - 0.5 * found.compute * 2 / 3 / 4)
    assert found.data > 0


def test_gradients_of_a_step_do_not_hide_behind_its_first_micro_batches(row):
    """Weights are gathered in each of them, and what leaves a pod goes once, when the last is computed."""
    layout = Layout(dp=8, fsdp=8, micro_batches=64, sharded="weights")
    (stage,) = parts(row, layout)
    found = step_time(row, (stage,), layout, Machine(TOY, "bf16", PODS))
    far = crossing_seconds(crossed(row, stage, layout, PODS), layout, PODS, 0.5)
    assert 0 < far < 0.5 * found.compute
    assert found.data >= far - 0.5 * found.compute * 2 / 3 / 64 > 0


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_one_level_is_as_before_and_more_or_slower_ones_are_never_faster(row, layout):
    alone = seconds(row, layout, Fabric())
    assert seconds(row, layout, Fabric((Tier("pod", 64, 1.0, 9.0),))) == alone
    assert price_layout(architecture("gpt2"), Layout(dp=2), length=64).beyond == ()
    pods = seconds(row, layout, PODS)
    regions = seconds(row, layout, REGIONS)
    assert alone <= pods <= regions
    # Nothing is gained by calling a node of 8 at full speed a pod.
    assert seconds(row, layout, Fabric((Tier("pod", 32, TOY.network),))) >= alone
    slower = [Fabric((Tier("pod", 16, width, late),)) for width, late in ((5e9, 1e-3), (1e9, 1e-3), (1e8, 1e-3), (1e8, 1.0))]
    times = [seconds(row, layout, fabric) for fabric in slower]
    assert times == sorted(times)
    assert times[-1] > alone


def test_palm_exchanges_between_its_pods_what_its_authors_print():
    """About 1.3 GB for each pair of hosts of 4 chips in a step (arXiv 2204.02311, section 4): gradients in bf16, by GiB."""
    row = replace(row_of(architecture("palm-540b"), 2048, BF16), states=States(gradients=2))
    (stage,) = stages(row, 1, 1)
    pods = Fabric((Tier("pod", 3072, hardware_of("tpu-v4").network),))
    (beyond,) = crossed(row, stage, Layout(dp=2, fsdp=256, tp=12, sp=False, micro_batch=4), pods)
    assert 4 * beyond / 2**30 == pytest.approx(1.3, rel=0.01)


def test_layouts_that_do_not_stand_in_pods_are_refused_with_the_reason():
    for layout, reason in (
        (Layout(dp=8, tp=3), "tp x pp = 3 x 1 ranks do not divide a pod of 16"),
        (Layout(dp=2, fsdp=32, ep=32), "ep = 32 reaches beyond a pod of 16 with pp = 1"),
        (Layout(dp=20), "20 accelerators are no whole number of pods of 16"),
    ):
        assert reason in PODS.problems(layout)
    assert PODS.problems(Layout(dp=4, tp=3)) == (), "one pod"
    with pytest.raises(UserError, match="no whole number of pods"):
        price_layout(architecture("gpt2"), Layout(dp=20), length=64, fabric=PODS)


def test_units_fill_what_equal_regions_can():
    """By trying every number of regions and of pods in each."""
    for whole, pods in itertools.product(range(40), (1, 3, 8)):
        regions, each = used(10 * whole + 7, 10, pods)
        every = [(r * n, -r) for r in range(1, -(-whole // pods) + 2) for n in range(pods + 1)]
        every = [(count, less) for count, less in every if count <= whole]
        assert (regions * each, -regions) == max(every)
    assert used(100_000, 3072, 8) == (4, 8)
    assert used(3071, 3072, 8) == (1, 0)


def test_defaults_are_those_of_llama_3():
    pod, region = default(hardware_of("h100")).tiers
    assert (pod.size, region.size) == (3072, 24576)
    assert pod.bandwidth == 50e9 / 7
    assert region.bandwidth * region.size == 125e9
    fast = default(hardware_of("h100"), out=1e18).tiers
    assert fast[1].bandwidth == fast[0].bandwidth, "through the links of pods"


@pytest.mark.parametrize(
    ("tiers", "words"),
    [
        ((("pod", 0, 1e9),), "a pod has 1 accelerator or more, got 0"),
        ((("pod", 8, 0.0),), "bandwidth between pods is a number of bytes/s above 0, got 0.0"),
        ((("pod", 8, 1e9, -1.0),), "latency between pods is a number of seconds, 0 or more, got -1.0"),
        ((("pod", 8, 1e9), ("region", 20, 1e8)), "no number of pods of 8: choose 16"),
        ((("pod", 8, 1e8), ("region", 16, 1e9)), "1e.09 bytes/s between regions is more than the 1e.08 between pods"),
    ],
)
def test_levels_that_cannot_be_are_refused(tiers, words):
    with pytest.raises(UserError, match=words):
        Fabric(tuple(Tier(*each) for each in tiers))


def test_pods_no_faster_than_their_network():
    with pytest.raises(UserError, match="60 GB/s between pods is more than the 50 GB/s"):
        default(hardware_of("h100"), between=60e9)


def test_a_search_over_pods_keeps_a_copy_in_each_and_tries_few_layouts():
    """The number of layouts grows with divisors, not with accelerators."""
    found = plan_training(
        architecture("llama-3-8b"), ranks=98304, batch_tokens=98304 * 1024, length=4096, plan=BF16,
        fabric=default(hardware_of("h100")),
    )  # fmt: skip
    assert found.tried < 3000
    assert found.fastest
    for each in found.fastest:
        layout = each.layout
        assert layout.ranks == 98304
        assert 3072 % (layout.tp * layout.pp) == 0
        assert len(each.beyond) == 2
        assert min(each.beyond) > 0
    one = plan_training(architecture("llama-3-8b"), ranks=98304, batch_tokens=98304 * 1024, length=4096, plan=BF16)
    assert one.fastest[0].time.total < found.fastest[0].time.total


def test_no_accelerator_is_left_out_where_a_node_does_not_divide_the_replicas():
    """12 replicas, 8 in a node."""
    found = plan_training(architecture("gpt2"), ranks=12, batch_tokens=12 * 1024, length=1024, show=50)
    assert {each.layout.ranks for each in (*found.fastest, *found.too_large)} == {12}
