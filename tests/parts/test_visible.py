"""What a query sees is asked for in one place, where a choice by data can narrow it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from anyformer.parts import (
    Attention,
    CrossAttention,
    Differential,
    LatentAttention,
    Rotary,
    Score,
    SpatialCrossAttention,
    Window,
)
from anyformer.parts.attention.attends import Attends
from anyformer.parts.call.context import Context, Visible
from anyformer.plan import Plan

B, T, D = 2, 9, 16
PARTS = {
    "attention": Attention(heads=4, kv_heads=2, place=Rotary()),
    "window": Attention(heads=4, mask=Window(size=4), score=Score(softcap=2.0)),
    "differential": Attention(heads=4, weigh=Differential()),
    "latent": LatentAttention(heads=2, kv_rank=6, nope_width=4, rope_width=4, value_width=5, rotary=Rotary()),
    "spatial": SpatialCrossAttention(scales=(8, 8), heads=2),
}


def module_of(part) -> nn.Module:
    module = part.build(D, Plan(), "part")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return module.eval()


def context(length: int, source: torch.Tensor | None = None) -> Context:
    return Context(torch.arange(length)[None], Plan(), padded=False, source=source)


@pytest.mark.parametrize("name", PARTS)
def test_a_choice_of_keys_by_data_holds_for_every_attention(name, monkeypatch):
    """Each query is given the one key that is most like its own input, itself: it reads what a token alone reads."""
    module, x = module_of(PARTS[name]), torch.randn(B, T, D, generator=torch.Generator().manual_seed(1))
    alone = torch.cat([module(x[:, t : t + 1], context(1)) for t in range(T)], 1)
    whole, asked = Attends.visible, []

    def chosen(self, x_BTD, context, keys=None, *, banded=False):
        like = -torch.cdist(x_BTD, x_BTD)
        best = torch.zeros_like(like, dtype=torch.bool).scatter(-1, like.argmax(-1, keepdim=True), True)
        asked.append(x_BTD)
        return whole(self, x_BTD, context, keys).narrowed(best[:, None])

    seen = module(x, context(T))
    monkeypatch.setattr(Attends, "visible", chosen)
    narrowed = module(x, context(T))
    assert asked
    assert not torch.allclose(seen, narrowed, atol=1e-3)
    torch.testing.assert_close(narrowed, alone, rtol=1e-4, atol=1e-5)


def test_cross_attention_is_asked_there_too(monkeypatch):
    module, x, source = module_of(CrossAttention(heads=4)), torch.randn(B, T, D), torch.randn(B, 5, D)
    first = torch.zeros(1, 1, T, 5, dtype=torch.bool)
    first[..., 0] = True
    expected = module(x, context(T, source[:, :1]))
    monkeypatch.setattr(Attends, "visible", lambda *given, **more: Visible().narrowed(first))
    torch.testing.assert_close(module(x, context(T, source)), expected)
