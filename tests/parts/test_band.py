"""Local attention in blocks: the same as over all pairs, forward and backward."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyformer.describe import Digested
from anyformer.operations import Shape
from anyformer.parts import (
    ALiBi,
    Attention,
    BlockWindow,
    Causal,
    Chunk,
    Differential,
    LatentAttention,
    Rotary,
    Score,
    Softmax,
    Strided,
    Window,
)
from anyformer.parts.call.context import Context
from anyformer.parts.call.state import Keys
from anyformer.parts.masks import band as bands
from anyformer.parts.masks.band import Band, band_of
from anyformer.plan import Plan
from parts.test_mask import masks

D, T = 8, 41
LOCAL = {
    "window": Window(size=7),
    "window of one": Window(size=1),
    "chunk": Causal() & Chunk(size=5),
    "chunk, both ways": Chunk(size=6),
    "either": Window(size=3) | (Causal() & Window(size=9) & Strided(stride=3)),
    "blocks": Causal() & BlockWindow(block=3, count=3),
}
DOCUMENTS = torch.tensor([[0] * 13 + [1] * 20 + [2] * 8, [0] * 2 + [1] * 1 + [2] * 38])


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(bands, "LEAST", 4)


def loud(module: torch.nn.Module) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.6, generator=generator)
    return module.double()


def contexts(plan: Plan, documents: torch.Tensor | None) -> tuple[Context, Context]:
    """The same call twice; that rows may hold padding keeps the second from a band."""
    positions = torch.arange(T)[None]
    if documents is not None:
        starts = torch.ones_like(documents, dtype=torch.bool)
        starts[:, 1:] = documents[:, 1:] != documents[:, :-1]
        positions = positions - torch.where(starts, positions, 0).cummax(1).values
    return tuple(
        Context(positions, plan, aligned=documents is None, padded=padded, documents=documents) for padded in (False, True)
    )


def outcomes(module: torch.nn.Module, context: Context) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x, towards = (torch.randn(2, T, D, generator=generator, dtype=torch.float64) for _ in range(2))
    y = module(x.requires_grad_(), context)
    return [y, *torch.autograd.grad(y, (x, *module.parameters()), towards)]


@pytest.mark.parametrize("documents", [None, DOCUMENTS], ids=["one document", "packed"])
@pytest.mark.parametrize("kernel", ["plain", "sdpa"])
@pytest.mark.parametrize("mask", LOCAL.values(), ids=list(LOCAL))
def test_a_band_changes_nothing(mask, kernel, documents):
    plan = Plan(attention=kernel)
    banded, whole = contexts(plan, documents)
    keys = Keys(banded.positions, "self")
    if documents is None or not mask.looks_ahead:
        assert banded.visible(Digested.of(mask), keys, banded=True).band is not None
    assert whole.visible(Digested.of(mask), keys, banded=True).band is None
    for part in (
        Attention(heads=4, kv_heads=2, mask=mask, place=Rotary()),
        Attention(heads=2, mask=mask, score=Score(softcap=3.0), weigh=Softmax(sink="head")),
        Attention(heads=4, mask=mask, weigh=Differential(lambda_init=0.5)),
        LatentAttention(heads=2, kv_rank=3, nope_width=2, rope_width=2, value_width=3, mask=mask),
    ):
        module = loud(part.build(D, plan, "part"))
        for ours, expected in zip(outcomes(module, banded), outcomes(module, whole), strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)  # scores are kept in fp32


@pytest.mark.parametrize(
    "facts",
    [{"mask": Causal()}, {"virtual_tokens": 2}, {"score_bias": ALiBi()}, {"dropout": 0.5}],
    ids=["no reach", "virtual tokens", "bias", "dropout"],
)
def test_no_band_where_it_does_not_fit(facts, monkeypatch):
    def refuse(*_):
        raise AssertionError("banded")

    monkeypatch.setattr("anyformer.parts.attention.attend._banded", refuse)
    plan = Plan()
    part = Attention(heads=2, mask=Window(size=3)).but(**facts)
    context, _ = contexts(plan, None)
    if part.weigh.dropped:
        from anyformer.parts.call.noise import Noise

        context = replace(context, noise=Noise.fresh(2, torch.device("cpu")))
    loud(part.build(D, plan, "part"))(torch.zeros(2, T, D, dtype=torch.float64), context)


@given(masks, st.integers(1, 40), st.booleans())
def test_a_band_holds_every_allowed_pair(mask, length, aligned):
    band = band_of(mask, length, aligned=aligned)
    if band is None:
        return
    assert 3 * band.keys <= 2 * length
    positions = torch.arange(length)[None]
    query, key = band.blocks(positions, -1)[..., :, None], band.surroundings(positions, -1)[..., None, :]
    held = mask.allowed(query, key, 0) & (key >= 0) & (query >= 0)
    assert held.sum() == mask.pairs(Shape(length=length))


def test_blocks_and_what_surrounds_them():
    band, x = Band(2, 1), torch.arange(1, 6)[None]
    assert band.blocks(x).tolist() == [[[1, 2], [3, 4], [5, 0]]]
    assert band.surroundings(x, -1).tolist() == [[[-1, -1, 1, 2], [1, 2, 3, 4], [3, 4, 5, -1]]]
