"""Mixture of block attention: the choice by mean keys, what it costs, and its decode state."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import anyformer as af
from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    MeanKeys,
    RMSNorm,
    Rotary,
    Score,
    pre_norm,
)
from anyformer.parts.attention import attend_choice, mean_keys_module
from anyformer.parts.attention.chosen_blocks import Places
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan

B, T, H, K, E, SIZE, KEEP = 2, 23, 4, 2, 6, 4, 3
ATTENTION = Attention(heads=H, kv_heads=K, head_width=8, place=Rotary(), score=Score(choice=MeanKeys(block=SIZE, keep=KEEP)))


def model_of(attention: Attention = ATTENTION, depth: int = 1) -> af.Architecture:
    return decoder_only(Embedding(vocab=17), 16, [pre_norm(RMSNorm(), attention, FeedForward(width=24))] * depth, head=Head())


def tokens(rows: int = 1, length: int = T) -> Tensor:
    return torch.randint(0, 17, (rows, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("at_once", [1, 1 << 22])
def test_the_choice_is_that_of_all_means_written_out(at_once, monkeypatch):
    monkeypatch.setattr("anyformer.parts.attention.chosen_keys.AT_ONCE", at_once)
    made = torch.Generator().manual_seed(0)
    q, k = (torch.randn(shape, generator=made) for shape in ((B, H, T, E), (B, K, T, E)))
    at = torch.arange(T)[None]
    where = Places(-(-T // SIZE), at // SIZE)
    scores, numbers = mean_keys_module.choose(q, mean_keys_module.mean_keys(k, where, SIZE), where, at, SIZE, KEEP)
    for b, h, t in ((b, h, t) for b in range(B) for h in range(H) for t in range(T)):
        means = [part.mean(0) for part in k[b, h // (H // K)].split(SIZE)]
        earlier = sorted(range(t // SIZE), key=lambda j: -(q[b, h, t] @ means[j]).item())
        seen = scores[b, t, h] > float("-inf")
        assert sorted(numbers[b, t, h][seen].tolist()) == sorted([t // SIZE, *earlier[: KEEP - 1]])


def test_gathered_blocks_are_those_under_their_mask():
    """By blocks, of gathered keys, and of all keys under a mask: outputs and gradients."""
    results = []
    for plan in (Plan(), Plan(attention="plain")):
        model = build(model_of(depth=2), plan, seed=3)
        logits = model(tokens(2))
        results.append((logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()))))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_heads_that_choose_by_themselves_are_gathered_as_they_are_attended_to_by_blocks(monkeypatch):
    """Where there is no processor's loop over blocks, keys are gathered."""
    model, logits = build(model_of(), seed=3), []
    for by_blocks in (True, False):
        if not by_blocks:
            gathers(monkeypatch)
        logits.append(model(tokens(2)))
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-4)


def gathers(monkeypatch):
    """Attention by blocks does what other devices do."""

    def of_blocks(q_BHTE, memory, visible, chosen, call):
        queries, at_key = q_BHTE.shape[2], memory.keys.positions.expand(len(q_BHTE), -1)
        chosen, q_BKTGE, at_query = attend_choice._by_groups(q_BHTE, memory, chosen, call.context)
        mixed, share = attend_choice._of_groups(q_BKTGE, memory, *chosen.indices(at_query, at_key), call)
        return attend_choice._by_heads(mixed, queries), share

    monkeypatch.setattr(attend_choice, "_of_blocks", of_blocks)


def test_it_has_no_weights_and_reports_no_loss():
    model, reports = build(model_of(), seed=0), Auxiliary()
    model(tokens(), auxiliary=reports)
    assert not [name for name, _ in model.named_parameters() if ".choice." in name]
    assert not ATTENTION.reports_index
    assert reports.index is None


def test_what_was_forgotten_leaves_no_mean():
    """A state that is trimmed into the middle of a block and read on is that of a model that never saw the rest."""
    model, row, other = build(model_of(depth=2), seed=1), tokens(1, 21), (tokens(1, 21) + 5) % 17
    state = model.state(1, 32)
    model(torch.cat([row[:, :9], other[:, 9:16]], 1), state=state)
    state.trim(7)
    logits = [model(row[:, t : t + 1], state=state)[:, -1] for t in range(9, 21)]
    torch.testing.assert_close(torch.stack(logits, 1), model(row)[:, 9:], rtol=1e-4, atol=1e-4)


def test_a_step_reads_the_chosen_blocks_of_each_head_and_the_means_before_its_own():
    plan, S = Plan(), 1002
    sheet = model_of().cost(Shape(length=1, past=S - 1), plan)
    state = next(iter(sheet.states.values()))
    keys, whole = 2 * SIZE + (S - 1) % SIZE + 1, (S - 1) // SIZE
    assert state.held == (S * K * (8 + 8) + (251 + 1) * K * 8) * plan.activation_bytes
    assert state.read == (H * (8 + 8) * keys + whole * K * 8) * plan.activation_bytes
    exact = {name: flops.exact for name, flops in sheet.flops.items()}
    at = "decoder.layers.0.block_sparse_attention.sublayer."
    assert exact[f"{at}scores"] == 2 * H * 8 * keys
    assert exact[f"{at}choice.scores"] == 2 * H * 8 * whole


@pytest.mark.parametrize("shape", [Shape(length=40), Shape(length=3, past=30), Shape(length=1, past=50), Shape(length=9)])
def test_whole_blocks_before_a_query_are_counted_query_by_query(shape):
    by_query = [p // SIZE for p in range(shape.past, shape.past + shape.length)]
    assert ATTENTION.score.choice.cost(ATTENTION.sizes(16), shape).own_work["scores"].exact == sum(by_query)


def test_a_choice_without_a_kind_is_an_indexer():
    described = model_of().model_dump(mode="json")
    attention = described["decoder"]["variants"]["layer"]["steps"][0]["branches"]["block_sparse_attention"]["sublayer"]
    assert attention["score"]["choice"]["kind"] == "mean_keys"
    del attention["score"]["choice"]["kind"]
    assert Attention.model_validate(attention).score.choice.kind == "block_indexer"
