"""Time of a step under a layout, by hand on a made-up machine; links; every named accelerator; speed of the planner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anyformer.catalogue import architecture
from anyformer.costs import cost
from anyformer.costs.hardware import HARDWARE, Efficiency, Hardware
from anyformer.costs.named_hardware import hardware_of
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.planning import links
from anyformer.planning.dealing import stages
from anyformer.planning.layout import Layout
from anyformer.planning.planner import Machine, machine_of, plan_training, price_layout, priced
from anyformer.planning.stages import row_of
from anyformer.planning.step import step_time
from anyformer.precision import Fp32
from effort import calls

BF16 = Plan(precision="bf16")
SHARES = Efficiency(matrix=0.5, attention=0.25, memory=0.8, elementwise=0.8, network=0.5, overlap=1.0, capacity=0.9)
TOY = Hardware("toy", "toy", {"bf16": 1e15, "fp32": 1e14}, 1e12, 1e12, 4e11, 5e10, 8, "made up", SHARES)


def timed(layout, name="llama-2-7b", length=1024, on=TOY, plan=BF16):
    row = row_of(architecture(name), length, plan)
    return row, step_time(row, stages(row, layout.pp, layout.chunks), layout, Machine(on, "bf16"))


def test_products_and_attention_reach_shares_of_their_own():
    arch = architecture("llama-2-7b")
    flops = arch.cost(Shape(batch=1, length=1024), BF16).flops
    attention = sum(work.exact for name, work in flops.items() if name.endswith((".scores", ".mix")))
    products = sum(work.exact for work in flops.values()) - attention
    fast = replace(TOY, bandwidth=1e16)
    _, found = timed(Layout(micro_batch=2, micro_batches=3), on=fast)
    assert found.products == pytest.approx(6 * 3 * products / (1e15 * 0.5))
    assert found.mixing == pytest.approx(6 * 3.5 * attention / (1e15 * 0.25))
    _, again = timed(Layout(micro_batch=2, micro_batches=3, checkpointing="full"), on=fast)
    head = flops["head.logits"].exact
    assert again.products == pytest.approx(6 * (4 * products - head) / (1e15 * 0.5))
    assert again.mixing == pytest.approx(6 * 4.5 * attention / (1e15 * 0.25))
    _, divided = timed(Layout(tp=4, micro_batch=2, micro_batches=3), on=fast)
    assert divided.products * 4 == pytest.approx(found.products)
    assert divided.mixing * 4 == pytest.approx(found.mixing)


@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
def test_a_rank_with_the_whole_model_takes_the_time_of_the_sheet(checkpointing):
    plan = BF16.but(checkpointing=checkpointing)
    for name in ("gpt2", "llama-3.2-1b", "mixtral-8x7b", "t5-base", "deepseek-v2-lite", "qwen3-next-80b-a3b"):
        length = min(1024, architecture(name).output_stack.max_length or 1024)
        sheet = cost(architecture(name), batch=4, length=length, plan=plan, hardware=TOY)
        _, once = timed(Layout(micro_batch=4, checkpointing=checkpointing), name, length)
        assert once.total == pytest.approx(sheet.time.seconds, rel=1e-9), name
        _, thrice = timed(Layout(micro_batch=4, micro_batches=3, checkpointing=checkpointing), name, length)
        update = 28 * (sheet.params.total + sheet.params.mtp) / (1e12 * 0.8)
        assert thrice.total == pytest.approx(3 * (sheet.time.seconds - update) + update, rel=1e-9), name


def test_scores_that_are_written_are_kept_and_moved():
    fused, plain = (timed(Layout(), plan=BF16.but(attention=how))[0].units[2].saved["none"] for how in ("auto", "plain"))
    # Softmax in fp32 and again in bf16; the kernel keeps log Z instead, and what it gives. Every rank has the whole mask.
    assert plain.divided - fused.divided == 1024 * 32 * (1024 * (4 + 2) - 4)
    assert plain.whole - fused.whole == 1024 * 1024
    longer = row_of(architecture("deepseek-v3"), 2048, BF16).units[9].saved["none"]
    shorter = row_of(architecture("deepseek-v3"), 1024, BF16).units[9].saved["none"]
    assert longer.divided == pytest.approx(2 * shorter.divided, rel=1e-3)


def test_rings_share_the_ports_of_a_node():
    assert links.ring(TOY, 8, 1) == 4e11 * 0.5
    assert links.ring(TOY, 64, 1) == min(4e11, 8 * 5e10) * 0.5
    assert links.ring(TOY, 16, 4) == 2 * 5e10 * 0.5
    assert links.ring(TOY, 16, 8) == 5e10 * 0.5
    assert [links.local(TOY, members, stride) for members, stride in ((4, 1), (64, 1), (64, 4), (64, 16))] == [4, 8, 2, 1]


def test_exchanges_within_a_node_and_beyond_it_go_side_by_side():
    assert links.exchange(TOY, 0, 0) == 0
    assert links.exchange(TOY, 7e9, 0) == pytest.approx(7e9 / (4e11 * 0.5))
    assert links.exchange(TOY, 7e9, 24e9) == pytest.approx(24e9 / (5e10 * 0.5))


def test_transfers_that_compute_hides_cost_nothing():
    _, few = timed(Layout(fsdp=64, sharded="weights"))
    _, many = timed(Layout(fsdp=64, sharded="weights", micro_batch=8))
    slow = TOY.but(network=1e8)
    _, slower = timed(Layout(fsdp=64, sharded="weights", micro_batch=8), on=slow)
    assert many.data == 0 < few.data
    assert slower.data > slower.compute


@pytest.mark.parametrize("name", HARDWARE)
def test_every_named_accelerator_can_be_planned_for(name):
    planned = plan_training(architecture("pythia-160m"), ranks=2, batch_tokens=2**16, length=1024, hardware=name, show=1)
    (best,) = planned.fastest
    assert best.memory.total <= hardware_of(name).usable_memory
    assert 0 < best.mfu < max(hardware_of(name).efficiency.matrix, hardware_of(name).efficiency.attention)


def test_precision_is_that_of_the_plan_or_of_the_faster_products():
    assert machine_of("h100", Plan(precision="fp32")).peak == 67e12
    assert machine_of("h100", Plan(precision="auto")).peak == 989.4e12
    assert machine_of("m1", Plan(precision="auto")).precision == Fp32()
    half, full = (
        price_layout(architecture("gpt2"), Layout(micro_batch=8), length=1024, plan=Plan(precision=how))
        for how in ("bf16", "fp32")
    )
    assert full.time.products == pytest.approx(half.time.products * 989.4 / 67)


def test_a_further_layout_is_priced_by_few_calls():
    """A plan prices thousands: a row's kernels are counted once, for the first."""
    row = row_of(architecture("llama-3.1-405b"), 8192, BF16)
    parts, machine = stages(row, 16, 6), machine_of("h100", BF16)
    first = Layout(fsdp=128, tp=8, pp=16, chunks=6, micro_batches=16, sharded="optimiser")
    assert calls(lambda: priced(row, parts, first, machine)) < 6_000
    assert calls(lambda: priced(row, parts, replace(first, fsdp=64, micro_batches=32), machine)) < 2_000
