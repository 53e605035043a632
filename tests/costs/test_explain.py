"""Explanations: what is written out works out, adds up to the price, and counts as the notes do."""

from __future__ import annotations

import json
from math import prod

import pytest
from combinations import draw
from hypothesis import given
from hypothesis import strategies as st

from anyformer.catalogue import architecture
from anyformer.costs import cost
from anyformer.costs.explain import explain
from anyformer.operations import Shape
from effort import examples


def worked_out(numbers: str) -> int:
    return prod(int(factor.replace(",", "")) for factor in numbers.split(" x "))


def check(made, *, batch: int, length: int, past: int = 0) -> None:
    told = explain(made, batch=batch, length=length, past=past)
    source = (past or length) if made.two_inputs else 0
    tally = made.cost(Shape(batch=batch, length=length, past=past, source=source))
    assert all(worked_out(line.numbers) == line.each for line in told.lines), "what is written out is what is counted"
    assert told.total("parameters") == tally.parameters
    assert told.total("FLOPs") == tally.total_flops.dense
    assert told.exact == tally.total_flops.exact
    assert told.notes <= told.total("FLOPs")
    json.loads(told.json())


@pytest.mark.parametrize(
    "name",
    ["gpt2", "llama-3.1-405b", "gemma-3-27b", "deepseek-v3", "mixtral-8x7b", "t5-v1.1-xl", "qwen3-next-80b-a3b",
     "whisper-large", "bert-base-uncased-pooled", "perceiver-imagenet", "vit-base-16", "albert-base-v2", "minimax-text-01"],
)  # fmt: skip
def test_lines_work_out_and_add_up(name):
    check(architecture(name), batch=2, length=100)


@examples(100)
@given(seed=st.integers(0, 10**6), batch=st.integers(1, 3), length=st.integers(1, 20))
def test_lines_of_any_architecture_work_out_and_add_up(seed, batch, length):
    check(draw(seed), batch=batch, length=length)


def test_a_decode_step_is_explained_too():
    for name in ("llama-3-8b", "deepseek-v3"):  # of these one absorbs its expansions
        check(architecture(name), batch=4, length=1, past=300)


def test_llama_7b_is_the_worked_example_of_the_notes():
    """ "LLM, attention", section 14: layers (6 b s h^2 + 4 b s^2 h + 2 b s h^2 + 6 b s h i) + 2 b s h v, softmax aside."""
    b, s, h, i, v, layers = 3, 512, 4096, 11_008, 32_000, 32
    told = explain(architecture("llama-7b"), batch=b, length=s)
    assert told.total("FLOPs") == layers * (8 * b * s * h**2 + 4 * b * s**2 * h + 6 * b * s * h * i) + 2 * b * s * h * v
    assert told.total("FLOPs") == cost(architecture("llama-7b"), batch=b, length=s).flops.forward.dense
    # The notes' table 2.
    assert told.total("parameters") == 2 * v * h + layers * (4 * h * h + 3 * h * i + 2 * h) + h

    # m h (2 n - 1), product by product: 4 of h, up and gate, down, scores and mix of 32 heads, logits.
    def product(m: int, n: int, k: int) -> int:
        return m * k * (2 * n - 1)

    projections = 4 * product(b * s, h, h) + 2 * product(b * s, h, i) + product(b * s, i, h)
    attention = b * 32 * (product(s, 128, s) + product(s, s, 128))
    assert told.notes == layers * (projections + attention) + product(b * s, h, v)


def test_the_notes_convention_counts_the_additions_of_each_query():
    """A sum over the keys of a query has one addition less than terms; how many queries there are differs by stack."""
    for name, stack, part in (("perceiver-imagenet", "decoder", "cross_attention"), ("t5-v1.1-xl", "encoder", "attention")):
        made = architecture(name)
        lines = [line for line in explain(made, batch=2, length=70).lines if line.where.startswith(stack)]
        mix = [line for line in lines if line.where.endswith(f".{part}.mix")]
        queries = made.latents.count if made.latents else 70
        for line in mix:
            _, B, heads, features, pairs = (int(factor.replace(",", "")) for factor in line.numbers.split(" x "))
            assert pairs == queries * 70
            assert line.notes == B * heads * queries * features * (2 * 70 - 1)
        assert mix


def test_every_dense_matrix_product_of_a_plain_decoder_has_its_formula():
    told = explain(architecture("llama-3-8b"), length=2048)
    assert not [line for line in told.lines if line.formula.startswith("no product")]
    written = str(told).splitlines()
    query = written[written.index("  decoder.layer.attention.query") + 1]
    assert query.startswith("    2 x B T x inputs x outputs = 2 x 2,048 x 4,096 x 4,096 ")
    assert query.split()[-3:] == ["32", f"{2_199_023_255_552:,}", f"{2_199_023_255_552:,}"]
    scores = written[written.index("  decoder.layer.attention.scores") + 1]
    assert scores.startswith("    2 x B x H x E x pairs = 2 x 1 x 32 x 128 x 4,194,304 ")
    assert scores.split()[-3:] == ["32", f"{32 * 34_359_738_368:,}", f"{32 * 17_188_257_792:,}"]
    assert next(line.notes for line in told.lines if line.where.endswith("query") and line.of == "FLOPs") == 2048 * 4096 * 8191
    assert f"{8_030_261_248:,}" in str(told)
