"""Tokens on their way to experts: counts against draws of random choices, bytes by hand, and what a step spends on them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from anyformer.catalogue import architecture
from anyformer.plan import Plan
from anyformer.planning import step
from anyformer.planning.dealing import stages
from anyformer.planning.layout import Layout, bounds, problems
from anyformer.planning.planner import plan_training, price_layout
from anyformer.planning.routing import MixtureRouting, copies, dispatched
from anyformer.planning.stages import row_of

BF16 = Plan(precision="bf16")
V3 = MixtureRouting(chosen=8, experts=256, width=7168, groups=8, keep=4)


def drawn(routing: MixtureRouting, parts: int, tokens: int = 4000) -> float:
    """Parts that hold one of the experts of a token, on average over random tokens."""
    draw, group, size = random.Random(0), routing.experts // routing.groups, routing.experts // parts
    total = 0
    for _ in range(tokens):
        kept = draw.sample(range(routing.groups), routing.keep)
        pool = [each * group + i for each in kept for i in range(group)]
        total += len({expert // size for expert in draw.sample(pool, routing.chosen)})
    return total / tokens


@pytest.mark.parametrize(
    "routing", [V3, MixtureRouting(8, 128, 4096), MixtureRouting(6, 160, 5120, 8, 3), MixtureRouting(1, 16, 64, 4, 1)]
)
@pytest.mark.parametrize("parts", [1, 2, 8, 16])
def test_tokens_reach_as_many_parts_as_random_choices_do(routing, parts):
    assert routing.reached(parts) == pytest.approx(drawn(routing, parts), rel=0.02)


def test_a_limit_on_groups_is_one_on_nodes():
    """DeepSeek-V3 sends each token to at most 4 of 8 nodes (arXiv 2412.19437, section 3.2.2)."""
    assert 3 < V3.reached(8) <= 4 < replace(V3, groups=1, keep=1).reached(8) < 8
    near, far = copies(V3, Layout(fsdp=64, ep=64), 8)
    assert far == pytest.approx(V3.reached(8) * 7 / 8)
    assert near == pytest.approx(V3.reached(64) * 7 / 8)


def test_a_token_is_sent_once_to_each_node_or_to_each_expert():
    by_expert = Layout(fsdp=64, ep=64, dispatcher="by_expert")
    assert copies(V3, by_expert, 8) == (8 * 7 / 64, 8 * 56 / 64)
    assert copies(V3, Layout(fsdp=8, ep=8, dispatcher="by_expert"), 8) == (7, 0)
    near, far = copies(V3, Layout(fsdp=8, ep=8), 8)
    assert far == 0
    assert near < 4
    assert copies(V3, Layout(), 8) == (0, 0)


def test_dispatches_in_fp8_and_sums_in_bf16():
    layout = Layout(fsdp=8, ep=8, dispatcher="by_expert")
    plain, _ = dispatched({V3: 2}, layout, 1000, 2, 8, again=False)
    assert plain == 2 * 7 * 7168 * 1000 * 2 * (2 + 2)
    again, _ = dispatched({V3: 2}, layout, 1000, 2, 8, again=True)
    assert again * 2 == plain * 3
    fp8, _ = dispatched({V3: 2}, replace(layout, fp8_dispatch=True), 1000, 2, 8, again=False)
    assert fp8 == 2 * 7 * (7168 + 4 * 7168 // 128 + 2 * 7168) * 1000 * 2, "an fp32 scale for each 128 numbers"


def test_routings_are_read_from_descriptions():
    routed = [unit.routed for unit in row_of(architecture("deepseek-v3"), 1024, BF16).units]
    assert sorted(set(routed), key=len) == [(), (V3,)]
    (qwen,) = {unit.routed for unit in row_of(architecture("qwen3-30b-a3b"), 1024, BF16).units if unit.routed}
    assert qwen == (MixtureRouting(8, 128, 2048),)


@pytest.fixture(scope="module")
def v3():
    """DeepSeek-V3 as it was laid out, with transfers in four ways."""
    base = Layout(fsdp=128, ep=64, pp=16, micro_batches=120, sharded="optimiser", checkpointing="selective")
    ways = {
        "by_expert": replace(base, dispatcher="by_expert"),
        "by_node": base,
        "fp8": replace(base, fp8_dispatch=True),
        "behind": replace(base, fp8_dispatch=True, behind=True),
    }
    arch = architecture("deepseek-v3")
    return {way: price_layout(arch, layout, length=4096, hardware="h800", plan=BF16) for way, layout in ways.items()}


def test_each_way_of_sending_costs_less_than_the_one_before(v3):
    spent = [each.time.experts for each in v3.values()]
    assert spent == sorted(spent, reverse=True)
    assert spent[0] > 2 * spent[1]
    hidden = v3["fp8"].time.experts
    assert hidden < v3["fp8"].machine.hardware.efficiency.overlap * v3["fp8"].time.compute
    assert v3["behind"].time.experts == pytest.approx(step.SENDING * hidden)
    assert v3["behind"].memory.activations > v3["fp8"].memory.activations, "two micro-batches are computed at once"


def test_what_compute_does_not_hide_is_waited_for(v3):
    layout, arch = v3["behind"].layout, architecture("deepseek-v3")
    slow = v3["behind"].machine.hardware.but(network=1e9)
    found = price_layout(arch, layout, length=4096, hardware=slow, plan=BF16).time
    alone = price_layout(arch, replace(layout, behind=False), length=4096, hardware=slow, plan=BF16).time.experts
    hidden = slow.efficiency.overlap * found.compute
    assert found.experts == pytest.approx(alone - hidden + step.SENDING * hidden)


def test_hosts_are_waited_for_where_tokens_leave_their_rank(v3):
    arch, layout = architecture("mixtral-8x7b"), Layout(fsdp=8, ep=8, micro_batches=3)
    waiting = price_layout(arch, layout, length=1024, plan=BF16).time
    assert waiting.host == pytest.approx(3 * 32 * step.WAITS)
    assert price_layout(arch, replace(layout, waits=False), length=1024, plan=BF16).time.host == 0
    assert price_layout(arch, replace(layout, ep=1), length=1024, plan=BF16).time.host == 0
    assert waiting.total == pytest.approx(waiting.busy + waiting.data + waiting.bubble)


def test_transfers_go_behind_computing_only_with_two_micro_batches():
    sizes = bounds(architecture("mixtral-8x7b"))
    (reason,) = problems(Layout(fsdp=8, ep=8, behind=True), sizes, 1024)
    assert "second micro-batch" in reason
    arch = architecture("qwen3-30b-a3b")
    planned = plan_training(arch, ranks=16, batch_tokens=2**18, length=4096, plan=BF16, behind=True, show=50).fastest
    ways = {each.layout.behind for each in planned if each.layout.ep > 1 and each.layout.micro_batches > 1}
    assert ways == {True}
    assert not any(each.layout.behind for each in planned if each.layout.ep == 1)


def test_stages_have_as_many_layers_where_asked():
    row = row_of(architecture("llama-3-8b"), 1024, BF16)
    work, even = ([sum(unit.layer for unit in stage.units) for stage in stages(row, 2, 1, even=way)] for way in (False, True))
    assert even == [16, 16]
    assert work[0] > 16 > work[1], "the head is as much work as some layers"
    assert sum(stage.copies for stage in stages(row, 8, 1)) == 8
    assert stages(row, 3, 1, even=True) == stages(row, 3, 1), "32 layers are not divided by 3"
    with pytest.raises(ValueError, match="dispatcher is one of by_node, by_expert"):
        Layout(dispatcher="by_rank")  # type: ignore[arg-type]
