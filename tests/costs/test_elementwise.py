"""Element-wise work: the table of the lecture notes, what experts and masks change, and every entry of the catalogue."""

from __future__ import annotations

import pytest
from combinations import draw
from hypothesis import given
from hypothesis import strategies as st

from anyformer.catalogue import architecture, listing
from anyformer.costs.elementwise import elementwise, elementwise_of
from anyformer.model import Architecture
from anyformer.operations import Flops, Shape
from effort import examples


def together(name: str, **shape: int) -> Flops:
    return sum(elementwise(architecture(name), Shape(**shape)).values(), Flops())


def test_llama_7b_is_the_table_of_the_notes():
    """ "LLM, attention", section 14: rotary 3 b s n d, here of queries and of keys; softmax 3 b s^2 n; residual b s h, twice;
    swish 4 b s i; product b s i; norm 4 b s h + 2 b s, twice and once at the end."""
    b, s, h, i, n, layers = 3, 512, 4096, 11_008, 32, 32
    norm = 4 * b * s * h + 2 * b * s
    others = layers * (2 * 3 * b * s * h + 2 * b * s * h + 4 * b * s * i + b * s * i + 2 * norm) + norm
    found = together("llama-7b", batch=b, length=s)
    assert found.dense == layers * 3 * b * s**2 * n + others
    assert found.exact == layers * 3 * b * (s * (s + 1) // 2) * n + others


def test_a_decode_step_meets_all_keys():
    found = elementwise(architecture("llama-7b"), Shape(batch=2, past=99))
    assert found["softmax"] == Flops(32 * 3 * 2 * 32 * 100, 32 * 3 * 2 * 32 * 100)
    assert found["residual"].exact == 32 * 2 * 2 * 4096


def test_experts_activate_what_they_choose():
    """Mixtral: 2 of 8 experts of 14,336, gated."""
    assert elementwise(architecture("mixtral-8x7b"), Shape(length=10))["activations"].exact == 32 * 10 * 2 * 14_336 * 5


def test_latent_attention_rotates_one_key():
    """DeepSeek-V3: 64 features of 128 queries and 1 key; norms of latents of 512 and 1,536."""
    found = elementwise(architecture("deepseek-v3"), Shape(length=7))
    assert found["rotary"].exact == 61 * 7 * 3 * 64 * 129
    own = 61 * (4 * 512 + 2 + 4 * 1536 + 2) + (2 * 61 + 1) * (4 * 7168 + 2)
    assert found["norms"].exact == 7 * own


def test_head_norms_count_where_there_are_any():
    """Qwen 3 8B: 32 heads of queries and 8 of keys, 128 features each."""
    found = elementwise(architecture("qwen3-8b"), Shape(length=5))["norms"].exact
    assert found == 5 * ((2 * 36 + 1) * (4 * 4096 + 2) + 36 * 40 * (4 * 128 + 2))


def test_two_lengths():
    one, other = (elementwise(architecture("t5-small"), Shape(length=8, source=source)) for source in (16, 32))
    assert other["residual"].exact - one["residual"].exact == 6 * 16 * 2 * 512
    step = elementwise(architecture("t5-small"), Shape(past=8, source=16))
    assert step["residual"].exact == 6 * 3 * 512, "the source was read before"
    pairs = 6 * 8 * 3 * (8 * 32 + 32 * 32 - 8 * 16 - 16 * 16)
    assert other["softmax"].exact - one["softmax"].exact == pairs


def of_tables(made: Architecture) -> Flops:
    """The work of the norms of tables of distances, which all rows share."""
    tables = [stack.relative for stack in made.stacks.values() if stack.relative is not None]
    return sum((elementwise_of(each.cost(made.width)).get("norms", Flops()) for each in tables), Flops())


@pytest.mark.parametrize("name", [entry.name for entry in listing()][::7])
def test_work_grows_with_the_batch_alone(name):
    """Every kind is as many times as large as there are rows, but for what all rows share."""
    made = architecture(name)
    one, three = (elementwise(made, Shape(batch=batch, length=16, source=16)) for batch in (1, 3))
    assert {kind: each * 3 for kind, each in one.items()} == {**three, "norms": three["norms"] + of_tables(made) * 2}
    assert all(each.exact <= each.dense for each in one.values())


@examples(60)
@given(seed=st.integers(0, 10**6), length=st.integers(1, 20))
def test_any_architecture_has_its_work(seed, length):
    made = draw(seed)
    found = elementwise(made, Shape(length=length, source=length if made.two_inputs else 0))
    assert all(0 < each.exact <= each.dense or each.exact == 0 for each in found.values())
    assert found["residual"].exact > 0
