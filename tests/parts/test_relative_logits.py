"""Relative logits: what a query's content says of each distance back."""

from __future__ import annotations

import torch
from transformers.models.inkling.modeling_inkling import InklingRelativeLogits

from anyformer.operations import Shape
from anyformer.parts import Attention, RelativeLogits
from anyformer.parts.attention.relative_logits_module import RelativeLogitsModule
from anyformer.parts.call.context import Context, Memory
from anyformer.parts.call.state import Keys
from anyformer.plan import Plan

B, T, S, D, H, F, N = 2, 4, 9, 12, 3, 5, 6
QUERIES, KEYS = torch.arange(S - T, S).expand(B, -1), torch.arange(S).expand(B, -1)


def built(extent: int = N) -> RelativeLogitsModule:
    torch.manual_seed(0)
    return RelativeLogits(features=F, extent=extent).module(Attention(heads=H).sizes(D))


def scores(module: RelativeLogitsModule, x: torch.Tensor) -> torch.Tensor:
    """(B, H, T, S) of the last T of S positions."""
    key = torch.zeros(B, H, S, D // H)
    memory = Memory(key, key, Keys(KEYS, ""))
    return module(torch.zeros(B, H, T, D // H), memory, Context(QUERIES, Plan()), None, x)


def test_they_are_those_of_inkling():
    module, theirs, x = built(), InklingRelativeLogits(F, N), torch.randn(B, T, D)
    with torch.no_grad():
        theirs.proj.copy_(module.profiles.weight.T)
        expected = theirs(module.states(x).view(B, T, H, F), QUERIES[0], KEYS[0])
        torch.testing.assert_close(scores(module, x), expected)


def test_far_and_later_keys_have_none():
    found = scores(built(3), torch.randn(B, T, D))
    distance = QUERIES[0, :, None] - KEYS[0]
    assert (found[..., (distance < 0) | (distance >= 3)] == 0).all()
    assert (found[..., (distance >= 0) & (distance < 3)] != 0).all()


def test_each_query_decides_for_itself():
    module, x = built(), torch.randn(B, T, D)
    before, changed = scores(module, x), x.clone()
    changed[:, 1] += 1
    differs = (scores(module, changed) != before).any(-1).any(1)
    assert differs.tolist() == [[False, True, False, False]] * B


def test_the_profiles_are_shared_by_heads_and_all_learn():
    module = built()
    scores(module, torch.randn(B, T, D)).square().sum().backward()
    assert module.profiles.weight.shape == (N, F)
    assert all(weight.grad.abs().sum() > 0 for weight in module.parameters())


def test_flops_by_hand():
    tally = RelativeLogits(features=F, extent=N).work(Attention(heads=H).sizes(D), Shape(batch=B, length=T))
    assert tally.total_flops.dense == 2 * B * T * (D * H * F + H * F * N)
