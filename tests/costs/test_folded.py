"""The fast sums, each variant of a block priced once, against the plain ones over every layer."""

from __future__ import annotations

from collections import Counter

import pytest
from combinations import draw
from hypothesis import given
from hypothesis import strategies as st

from anyformer.catalogue import architecture, listing
from anyformer.costs import cost
from anyformer.costs.counts import located
from anyformer.model import Architecture
from anyformer.operations import Elementwise, Flops, Shape, Tally
from anyformer.parts import Attention, Embedding, FeedForward, RMSNorm, pre_norm, stack
from anyformer.parts.call.shared import slot_bytes
from anyformer.plan import Plan
from effort import examples

NAMES = [entry.name for entry in listing()]


def by_component(tally: Tally) -> tuple[Counter[str], dict[str, Flops]]:
    """From the names of everything that is there, one by one."""
    find = located(tally)
    counts: Counter[str] = Counter()
    flops: dict[str, Flops] = {}
    for name, weight in tally.weights.items():
        counts[find(name)[0].component] += weight.count
    for name, each in tally.flops.items():
        at = find(name)[0].component
        flops[at] = flops.get(at, Flops()) + each
    return counts, flops


def check(made: Architecture, shape: Shape, plan: Plan | None = None) -> None:
    plain, fast = made.cost(shape, plan), made.folded_cost(shape, plan)
    assert fast.parameters == plain.parameters
    assert fast.active_parameters == plain.active_parameters
    assert fast.total_flops == plain.total_flops
    assert fast.total_state_bytes == plain.total_state_bytes
    assert set(fast.limits) == set(plain.limits)
    assert by_component(fast) == by_component(plain)
    assert moved(fast) == moved(plain)


def moved(tally: Tally) -> tuple[int, int, Counter[str]]:
    """Bytes of decode state that are read and written, and element-wise work by kind."""
    work: Counter[str] = Counter()
    for node in tally.nodes():
        for each in node.tally.own_work.values():
            if isinstance(each, Elementwise):
                work[each.kind] += each.exact * node.times
    states = tally.states.values()
    return sum(state.read for state in states), sum(state.written for state in states), work


@examples(100)
@given(
    seed=st.integers(0, 10**6),
    batch=st.integers(1, 5),
    length=st.integers(1, 40),
    past=st.integers(0, 50),
    chunk=st.integers(1, 9),
)
def test_any_architecture_costs_the_same_both_ways(seed, batch, length, past, chunk):
    made = draw(seed)
    source = 7 if made.two_inputs else 0
    if made.output_stack.max_length is not None:
        past = 0
    check(made, Shape(batch=batch, length=length, past=past, source=source), Plan(chunk=chunk, precision="bf16"))


@pytest.mark.parametrize("name", NAMES[::4])
def test_published_ones_cost_the_same_both_ways(name):
    made = architecture(name)
    check(made, Shape(batch=2, length=33, source=9 if made.two_inputs else 0))


def test_layers_of_one_set_of_weights_hold_it_once():
    blocks = [pre_norm(RMSNorm(), Attention(heads=2), FeedForward(width=width)) for width in (12, 20)]
    made = Architecture(
        width=8,
        embedding=Embedding(vocab=11),
        decoder=stack([blocks[0], blocks[1], blocks[0], blocks[0]], shared_weights=("layer_a",)),
    )
    check(made, Shape(length=5))
    assert made.folded_cost(Shape()).parameters < made.but(decoder=made.decoder.but(shared_weights=())).cost(Shape()).parameters


@pytest.mark.parametrize("name", ["llama-3-8b", "gemma-3-27b", "t5-v1.1-xl", "qwen3-next-80b-a3b", "kimi-k2"])
@pytest.mark.parametrize("mode", ["train", "decode"])
def test_the_decode_state_of_a_sheet_is_that_of_a_decoder_with_so_much_room(name, mode):
    made, batch, length, plan = architecture(name), 3, 5000, Plan(precision="bf16")
    keys, source = length + (mode == "decode"), length if made.two_inputs else 0
    state = {at: made.cost(Shape(batch=3, past=at - 1, source=source), plan).total_state_bytes for at in (keys, keys - 1)}
    sheet = cost(made, batch=batch, length=length, mode=mode, plan=plan)
    assert sheet.state_bytes == state[keys] + slot_bytes(batch, keys)
    # What is quoted of a token is what the layers hold, without the number of its position.
    assert sheet.state_bytes_per_token * batch == state[keys] - state[keys - 1]
