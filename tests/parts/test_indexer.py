"""Keys chosen for each query: the choice, attention over it and the loss of its scores, against every pair written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import anyformer as af
from anyformer.describe import DescriptionError
from anyformer.model import decoder_only
from anyformer.model.transformer import build
from anyformer.operations import Shape
from anyformer.parts import (
    Causal,
    Chunk,
    Embedding,
    FeedForward,
    Fixed,
    Head,
    Indexer,
    LatentAttention,
    RMSNorm,
    Strided,
    Window,
    pre_norm,
)
from anyformer.parts.attention.attend_chosen import attend_chosen
from anyformer.parts.attention.chosen_keys import Chosen, choose
from anyformer.parts.attention.index_loss import index_loss
from anyformer.parts.call.context import Visible
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan

B, T, J, E, KEEP = 2, 9, 3, 4, 3
LATENT = LatentAttention(heads=2, kv_rank=8, q_rank=8, nope_width=4, rope_width=4, value_width=4, norm=RMSNorm())
INDEXED = LATENT.but(choice=Indexer(keep=4, heads=4, head_width=8))

MASKS = (
    Causal(),
    Causal() & Window(size=7),
    Causal() & Chunk(size=6),
    Causal() & (Strided(stride=3) | Window(size=2)),
    Causal() & (Chunk(size=8) | Fixed(size=8, summary=2)),
)


def model_of(attention: LatentAttention, depth: int = 1) -> af.Architecture:
    return decoder_only(Embedding(vocab=17), 16, [pre_norm(RMSNorm(), attention, FeedForward(width=24))] * depth, head=Head())


def drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    made = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=made).requires_grad_() for shape in shapes]


def every_score(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
    """(B, T, S), written out."""
    return torch.einsum("btj,btjs->bts", w, torch.relu(torch.einsum("btje,bse->btjs", q, k)))


@pytest.mark.parametrize("at_once", [1, 1 << 22])
@pytest.mark.parametrize("keep", [KEEP, T])
@pytest.mark.parametrize("how", ["causal", "mask", "all"])
def test_the_choice_and_its_loss_are_those_of_all_scores_written_out(how, keep, at_once, monkeypatch):
    monkeypatch.setattr("anyformer.parts.attention.chosen_keys.AT_ONCE", at_once)
    q, k, w = drawn((B, T, J, E), (B, T, E), (B, T, J))
    triangle = torch.ones(T, T, dtype=torch.bool).tril()[None, None]
    visible = {"causal": Visible(causal=True), "mask": Visible(triangle.expand(B, -1, -1, -1)), "all": Visible()}[how]
    chosen = choose(q, k, w, visible, keep)
    scores = every_score(q, k, w)
    seen = scores if how == "all" else scores.masked_fill(~triangle[:, 0], float("-inf"))
    best = seen.topk(keep, -1).values.amin(-1, keepdim=True)
    dense = chosen.dense()[:, 0]
    assert (dense <= (seen >= best)).all(), "the chosen keys have the greatest scores"
    assert (dense >= (seen > best)).all(), "and all of these are chosen"
    assert (dense.sum(-1) == (seen > float("-inf")).sum(-1).clamp(max=keep)).all()

    share = torch.rand(B, T, T).masked_fill(~dense, 0)
    share = share / share.sum(-1, keepdim=True)
    ours = index_loss(chosen.scores, chosen.allowed, share.gather(-1, chosen.indices))
    log_q = seen.masked_fill(~dense, float("-inf")).log_softmax(-1)
    theirs = torch.stack(
        [
            torch.stack([sum(p * (p.log() - g) for p, g in zip(*row, strict=True) if p > 0) for row in zip(*rows, strict=True)])
            for rows in zip(share, log_q, strict=True)
        ]
    )
    torch.testing.assert_close(ours, theirs)
    weight = torch.arange(1.0, B * T + 1).view(B, T)
    one, other = (torch.autograd.grad((loss * weight).sum(), (q, k, w)) for loss in (ours, theirs))
    for mine, written in zip(one, other, strict=True):
        torch.testing.assert_close(mine, written, rtol=1e-4, atol=1e-4)


def test_scores_of_zero_go_to_the_latest_keys():
    q, k, w = drawn((1, T, J, E), (1, T, E), (1, T, J))
    chosen = choose(q * 0, k, w, Visible(causal=True), KEEP)
    assert [sorted(row.tolist()) for row in chosen.indices[0]][-2:] == [[5, 6, 7], [6, 7, 8]]


@pytest.mark.parametrize("at_once", [1, 1 << 22])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("form", ["chosen", "all keys", "values in keys"])
def test_attention_over_chosen_keys_is_that_under_their_mask(form, sinks, groups, at_once, monkeypatch):
    monkeypatch.setattr("anyformer.parts.attention.chosen_keys.AT_ONCE", at_once)
    H, U = 4, 3
    q, k, v, index, sink = drawn((B, T, H, E), (B, T, groups, E), (B, T, groups, U), (B, T, T), (H,))
    triangle = torch.ones(T, T, dtype=torch.bool).tril()
    scores, indices = index.detach().masked_fill(~triangle, float("-inf")).topk(KEEP, -1)
    chosen = Chosen(indices, scores, T)
    used = k[..., :U] if form == "values in keys" else v
    mask = triangle.expand(B, 1, -1, -1) if form == "all keys" else chosen.dense()
    given = (None, triangle.expand(B, -1, -1)) if form == "all keys" else (chosen.indices, chosen.allowed)
    ours, share = attend_chosen(q, k, U if form == "values in keys" else v, *given, scale=0.6, sink_H=sink if sinks else None)
    each = H // groups
    raw = torch.einsum("bthe,bshe->bhts", q, k.repeat_interleave(each, 2)) * 0.6
    raw = raw.masked_fill(~mask, float("-inf"))
    beside = torch.full_like(raw[..., :1], float("-inf")) if not sinks else sink[:, None, None].expand(B, H, T, 1)
    weights = torch.cat([raw, beside], -1).softmax(-1)[..., :-1]
    theirs = torch.einsum("bhts,bshu->bthu", weights, used.repeat_interleave(each, 2))
    torch.testing.assert_close(ours, theirs)
    mean = weights.mean(1)
    torch.testing.assert_close(share, mean if form == "all keys" else mean.gather(-1, indices))
    direction, leaves = torch.randn(ours.shape), (q, k) if form == "values in keys" else (q, k, v)
    leaves = (*leaves, sink) if sinks else leaves
    one, other = (torch.autograd.grad((y * direction).sum(), leaves) for y in (ours, theirs))
    for mine, written in zip(one, other, strict=True):
        torch.testing.assert_close(mine, written, rtol=1e-4, atol=1e-5)


def test_training_saves_nothing_of_every_pair():
    """Of T queries and keys, with k = 4: no saved tensor has T * T numbers."""
    length, sizes = 96, []
    model = build(model_of(INDEXED.but(heads=1)))
    tokens = torch.randint(0, 17, (1, length), generator=torch.Generator().manual_seed(0))

    def pack(x: Tensor) -> Tensor:
        sizes.append(x.numel())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        model(tokens, auxiliary=Auxiliary())
    assert sizes
    assert max(sizes) < length * length


def test_the_loss_of_an_index_trains_it_towards_the_attention():
    model = build(model_of(INDEXED), seed=1)
    tokens = torch.randint(0, 17, (4, 24), generator=torch.Generator().manual_seed(0))
    own = [p for name, p in model.named_parameters() if ".choice." in name]
    optimiser, losses = torch.optim.Adam(own, 0.03), []
    for _ in range(40):
        reports = Auxiliary()
        model(tokens, auxiliary=reports)
        losses.append(reports.index.item())
        optimiser.zero_grad()
        reports.index.backward()
        optimiser.step()
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize("mask", MASKS)
def test_pairs_of_at_most_so_many_keys_are_counted(mask):
    for shape in (Shape(length=40), Shape(length=3, past=30), Shape(length=1, past=50), Shape(length=30_000)):
        for most in (1, 4, 9, 1000):
            by_query = np.minimum(mask.counts(shape), most)
            assert mask.pairs_at_most(most, shape) == int(by_query.sum())
    assert Causal().pairs_at_most(2048, Shape(length=1 << 40)) == 2048 * 2049 // 2 + 2048 * ((1 << 40) - 2048)


def test_a_step_reads_the_chosen_latents_and_all_index_keys():
    """By hand: k latents of P + R numbers, and S index keys; FLOPs of scores and mixing over k keys."""
    plan, S = Plan(), 1000
    sheet = model_of(INDEXED).cost(Shape(length=1, past=S - 1), plan)
    state = next(iter(sheet.states.values()))
    assert state.held == S * (8 + 4 + 8) * plan.activation_bytes
    assert state.read == (4 * (8 + 4) + S * 8) * plan.activation_bytes
    exact = {name: flops.exact for name, flops in sheet.flops.items()}
    at = "decoder.layers.0.latent_attention.sublayer."
    assert exact[f"{at}scores"] == 2 * 2 * 4 * (8 + 4)
    assert exact[f"{at}mix"] == 2 * 2 * 4 * 8
    assert exact[f"{at}choice.scores"] == 2 * 4 * 8 * S


def test_a_window_is_refused():
    with pytest.raises(DescriptionError, match="leave the window out of the mask"):
        INDEXED.but(mask=Window(size=4))
