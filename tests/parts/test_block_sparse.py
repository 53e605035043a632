"""Attention over blocks of keys that an indexer chooses: its choice, its loss, and what it saves."""

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
    BlockIndexer,
    Embedding,
    FeedForward,
    Head,
    RMSNorm,
    Rotary,
    Score,
    pre_norm,
)
from anyformer.parts.attention.chosen_blocks import Places, choose_blocks
from anyformer.parts.attention.index_loss import index_loss
from anyformer.parts.call.context import Visible
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan

B, T, K, E, SIZE, KEEP = 2, 23, 2, 6, 4, 3
CHOICE = BlockIndexer(block=SIZE, keep=KEEP, head_width=E, norm=RMSNorm(), rotary=Rotary())
ATTENTION = Attention(heads=4, kv_heads=K, head_width=8, score=Score(choice=CHOICE))


def model_of(attention: Attention, depth: int = 1) -> af.Architecture:
    return decoder_only(Embedding(vocab=17), 16, [pre_norm(RMSNorm(), attention, FeedForward(width=24))] * depth, head=Head())


def tokens(rows: int = 1, length: int = T) -> Tensor:
    return torch.randint(0, 17, (rows, length), generator=torch.Generator().manual_seed(0))


def by_blocks(scores_BTKS: Tensor) -> Tensor:
    """The greatest score of each block, -inf where nothing is seen: (B, T, K, ceil(S / b))."""
    return torch.stack([part.amax(-1) for part in scores_BTKS.split(SIZE, -1)], -1)


@pytest.mark.parametrize("at_once", [1, 1 << 22])
@pytest.mark.parametrize("how", ["in order", "by numbers"])
def test_the_choice_and_its_loss_are_those_of_all_scores_written_out(how, at_once, monkeypatch):
    monkeypatch.setattr("anyformer.parts.attention.chosen_keys.AT_ONCE", at_once)
    made = torch.Generator().manual_seed(0)
    q, k = (torch.randn(shape, generator=made).requires_grad_() for shape in ((B, T, K, E), (B, T, E)))
    at = torch.arange(T)
    numbers = None if how == "in order" else (at // SIZE).expand(B, -1)
    triangle = torch.ones(T, T, dtype=torch.bool).tril()
    visible = Visible(causal=True) if how == "in order" else Visible(triangle.expand(B, 1, -1, -1))
    where = Places(-(-T // SIZE), (at // SIZE)[None], numbers)
    chosen = choose_blocks(q, k, visible, where, size=SIZE, keep=KEEP, local=1)
    scores = torch.einsum("btke,bse->btks", q, k).masked_fill(~triangle[:, None], float("-inf"))
    blocks = by_blocks(scores)
    own = torch.arange(blocks.shape[-1]) == (at // SIZE)[:, None, None]
    order = torch.where(own, float("inf"), blocks.detach())
    best = order.topk(KEEP, -1).indices.sort(-1).values
    seen = blocks.gather(-1, best) > float("-inf")
    ours = torch.where(chosen.allowed, chosen.numbers, 99).sort(-1).values
    assert torch.equal(ours, torch.where(seen, best, 99).sort(-1).values)
    torch.testing.assert_close(chosen.scores, blocks.gather(-1, chosen.numbers))

    share = torch.rand(chosen.scores.shape, generator=made).masked_fill(~chosen.allowed, 0)
    share = share / share.sum(-1, keepdim=True)
    losses = (
        index_loss(chosen.scores, chosen.allowed, share),
        index_loss(blocks.gather(-1, chosen.numbers), chosen.allowed, share),
    )
    weight = torch.arange(1.0, B * T * K + 1).view(B, T, K)
    one, other = (torch.autograd.grad((loss * weight).sum(), (q, k)) for loss in losses)
    for mine, written in zip(one, other, strict=True):
        torch.testing.assert_close(mine, written, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("told", [False, True])
def test_gathered_blocks_are_those_under_their_mask(told):
    """Written out, every key is scored, and a mask leaves the others out: outputs, gradients and the loss of the index."""
    results = []
    for plan in (Plan(), Plan(attention="plain")):
        model, reports = build(model_of(ATTENTION, 2), plan, seed=3), Auxiliary() if told else None
        logits = model(tokens(2), auxiliary=reports)
        loss = logits.sum() + (reports.index if told else 0)
        learnt = [weight for name, weight in model.named_parameters() if told or ".choice." not in name]
        results.append((logits, *torch.autograd.grad(loss, learnt)))
    for gathered, masked in zip(*results, strict=True):
        torch.testing.assert_close(gathered, masked, rtol=1e-4, atol=1e-4)


def test_the_loss_of_an_index_trains_it_towards_the_attention():
    model = build(model_of(ATTENTION), seed=1)
    own = [p for name, p in model.named_parameters() if ".choice." in name]
    optimiser, losses = torch.optim.Adam(own, 0.03), []
    for _ in range(40):
        reports = Auxiliary()
        model(tokens(4), auxiliary=reports)
        losses.append(reports.index.item())
        optimiser.zero_grad()
        reports.index.backward()
        optimiser.step()
    assert losses[-1] < 0.6 * losses[0]


def test_a_step_reads_the_chosen_blocks_and_all_index_keys():
    """By hand: two whole blocks and what the query's own has so far, and S index keys."""
    plan, S = Plan(), 1000
    sheet = model_of(ATTENTION).cost(Shape(length=1, past=S - 1), plan)
    state = next(iter(sheet.states.values()))
    each, keys = K * (8 + 8), 2 * SIZE + (S - 1) % SIZE + 1
    assert state.held == S * (each + E) * plan.activation_bytes
    assert state.read == (keys * each + S * E) * plan.activation_bytes
    exact = {name: flops.exact for name, flops in sheet.flops.items()}
    at = "decoder.layers.0.block_sparse_attention.sublayer."
    assert exact[f"{at}scores"] == 2 * 4 * 8 * keys
    assert exact[f"{at}choice.scores"] == 2 * K * E * S


@pytest.mark.parametrize("shape", [Shape(length=40), Shape(length=3, past=30), Shape(length=1, past=50), Shape(length=9)])
def test_pairs_are_counted_query_by_query(shape):
    _, exact = ATTENTION.pairs(shape, Plan())
    by_query = [min(p // SIZE, KEEP - 1) * SIZE + p % SIZE + 1 for p in range(shape.past, shape.past + shape.length)]
    assert exact == sum(by_query)
