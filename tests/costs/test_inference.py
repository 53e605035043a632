"""Memory of inference: bytes allocated, formats by hand, and what a decode step reads."""

from __future__ import annotations

import random

import pytest
import torch
from combinations import draw
from hypothesis import given
from hypothesis import strategies as st

from anyformer.catalogue import architecture
from anyformer.costs.inference import decode_state, distinct_experts, read_per_step, weight_bytes
from anyformer.operations import Shape, Weight
from anyformer.plan import Plan
from anyformer.quantising import FORMATS
from effort import examples

BF16 = Plan(precision="bf16")
GROWTH = {
    "llama-3-8b": {"every token"},
    "gemma-3-27b": {"every token", "to its window"},
    "deepseek-v3": {"every token"},
    "qwen3-next-80b-a3b": {"every token", "never"},
    "t5-v1.1-xl": {"every token", "with the source"},
    "minimax-text-01": {"every token", "never"},
    "lfm2-1.2b": {"every token", "never"},
    "mistral-7b-v0.1": {"to its window"},
    "bert-base-uncased": set(),
}


@pytest.mark.parametrize("name", GROWTH)
def test_decode_state_is_what_is_allocated(name):
    made, batch, context = architecture(name), 3, 5000
    state = decode_state(made, batch=batch, context=context)
    assert {memory.grows for memory in state.memories} == GROWTH[name]
    if made.decoder is None:
        assert state.total == 0
        return

    def allocated(positions: int) -> int:
        source = context if made.two_inputs else 0
        stack = made.decoder.state(made.width, batch, positions, source, torch.bfloat16, torch.device("meta"))
        return stack.nbytes

    assert state.total == allocated(context)
    # 8 bytes for the position of each token
    assert (state.per_token + 8) * batch == allocated(context) - allocated(context - 1)
    assert state.per_sequence * batch == state.total


@examples(60)
@given(seed=st.integers(0, 10**6), batch=st.integers(1, 4), context=st.integers(2, 40))
def test_any_decoder_allocates_what_is_said(seed, batch, context):
    made = draw(seed)
    if made.decoder is None:
        return
    source = 7 if made.two_inputs else 0
    said = decode_state(made, batch=batch, context=context, source=source or None, plan=Plan(precision="fp32"))
    state = made.decoder.state(made.width, batch, context, source, torch.float32, torch.device("meta"))
    assert said.total == state.nbytes


def test_formats_by_hand():
    """Llama 3 8B: tables and head stay 16 bits, norms too."""
    made = architecture("llama-3-8b")
    D, F, L, V, K = 4096, 14336, 32, 128_256, 1024
    rows = L * (2 * D + 2 * K + 2 * F + D)  # outputs of query and output, key and value, gate and up, down
    matrices = L * (2 * D * D + 2 * D * K + 3 * D * F)
    others = 2 * V * D + (2 * L + 1) * D
    groups = L * ((2 * D + 2 * K + 2 * F) * (D // 128) + D * (F // 128))
    assert weight_bytes(made, FORMATS["fp32"]) == 4 * (matrices + others)
    assert weight_bytes(made, FORMATS["bf16"]) == 2 * (matrices + others)
    assert weight_bytes(made, FORMATS["fp8"]) == matrices + 4 * 7 * L + 2 * others
    assert weight_bytes(made, FORMATS["int8"]) == matrices + 2 * rows + 2 * others
    assert weight_bytes(made, FORMATS["int4"]) == matrices // 2 + groups * 20 // 8 + 2 * others


def test_experts_are_quantised_each_and_routers_are_not():
    weights = architecture("mixtral-8x7b").cost(Shape()).weights
    held = {
        name.split(".", 3)[3]: weight.quantisable for name, weight in weights.items() if name.startswith("decoder.layers.0")
    }
    assert held["experts.sublayer.up"]
    assert not held["experts.sublayer.router.weight"]
    experts = Weight((8, 100, 64), "expert", "matrix", chosen=2)
    assert FORMATS["fp8"].bytes(experts) == 8 * (100 * 64 + 4)
    assert FORMATS["int4"].bytes(experts) == 8 * (100 * 64 // 2 + 100 * 20 // 8)  # 64 inputs are less than a group
    assert FORMATS["int4"].bytes(experts * 3) == 3 * FORMATS["int4"].bytes(experts)


def test_a_step_reads_every_weight_but_the_rows_that_nobody_looks_up():
    made = architecture("llama-3-8b")
    table, total = 128_256 * 4096, made.cost(Shape()).parameters
    read = read_per_step(made, FORMATS["bf16"], batch=4, length=1000)
    assert read.weights == 2 * (total - table) + 2 * 4 * 4096
    assert read.state == decode_state(made, batch=4, context=1001).total - 8 * 4 * 1001
    tied = architecture("llama-12m")
    assert read_per_step(tied, FORMATS["bf16"], length=10).weights == 2 * tied.cost(Shape()).parameters


def test_decoding_reads_neither_the_encoder_nor_the_other_table():
    made = architecture("t5-v1.1-xl")
    weights = made.cost(Shape(source=1)).weights
    decoder = sum(w.count for name, w in weights.items() if name.startswith(("decoder.", "head.")))
    table = 2 * made.width  # one row of the shared table
    read = read_per_step(made, FORMATS["bf16"], length=100).weights
    bias = next(w for name, w in weights.items() if name.startswith("decoder.score_bias"))
    assert read == 2 * decoder + table, bias


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b", "gpt-oss-20b", "llama-4-scout"])
def test_a_token_s_flops_are_those_of_the_weights_it_uses(name):
    """2 FLOPs for every number of a matrix that one token uses, and the product of one query with one key and value."""
    made = architecture(name)
    tally = made.cost(Shape())
    used = sum(w.active for w in tally.weights.values() if w.fill in ("matrix", "residual", "head") and len(w.shape) > 1)
    own = {*tally.weights, *(name.removesuffix(".weight") for name in tally.weights), "head.logits"}
    between = sum(flops.dense for name, flops in tally.flops.items() if name not in own)
    assert not made.head.tied
    assert tally.total_flops.dense == 2 * used + between
    assert between < 0.01 * tally.total_flops.dense
    assert tally.active_parameters < 0.5 * tally.parameters


@pytest.mark.parametrize(("experts", "chosen", "tokens"), [(8, 2, 1), (8, 2, 5), (64, 6, 16), (5, 5, 3)])
def test_expected_experts_are_those_of_a_lottery(experts, chosen, tokens):
    draws = random.Random(0)
    tries = 4000
    seen = sum(len({e for _ in range(tokens) for e in draws.sample(range(experts), chosen)}) for _ in range(tries))
    assert abs(distinct_experts(experts, chosen, tokens) - seen / tries) < 0.02 * experts
    made = architecture("mixtral-8x7b")
    one, many = (read_per_step(made, FORMATS["bf16"], batch=b, length=10).weights for b in (1, 4096))
    tally = made.cost(Shape())
    table = 32_000 * 4096
    assert one == 2 * (tally.active_parameters - table) + 2 * 4096
    assert abs(many / 2 - (tally.parameters - table + 4096 * 4096)) < 10
