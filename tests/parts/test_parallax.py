"""Parallax: a local linear fit of the values, as the authors' code has it."""

from __future__ import annotations

import pytest
import torch

from anyformer.parts import Attention, Parallax
from anyformer.parts.attention.parallax_module import corrected
from anyformer.parts.call.context import Context
from anyformer.plan import Plan

B, T, H, E = 2, 9, 2, 3


def waves(*shape: int, step: float) -> torch.Tensor:
    """sin(step), sin(2 step) ...: numbers that anyone can write down again."""
    return torch.sin(torch.arange(1, torch.Size(shape).numel() + 1, dtype=torch.float64) * step).view(shape)


def test_it_is_what_the_authors_code_gives():
    """flash-linear-attention 0.6.0's naive Parallax in fp32: the last token of the first row, and the sum of all squares."""
    x = torch.cat([waves(B, T, H * E, step=step) for step in (0.7, 0.4, 1.1, 1.9)], -1)
    plan, rows = Plan(), torch.eye(4 * H * E, dtype=torch.float64).split(H * E)
    module = Attention(heads=H, head_width=E, weigh=Parallax()).build(4 * H * E, plan, "attention").double()
    names = ("query.weight", "parallax.weight", "key.weight", "value.weight")
    module.load_state_dict({**dict(zip(names, rows, strict=True)), "output.weight": rows[0].mT})
    y = module(x, Context(positions=torch.arange(T)[None], plan=plan, padded=False))[..., : H * E].detach()
    last = [[-0.0124125, 0.1110191, -0.0593702], [0.1608801, 0.2731735, -0.3375084]]
    torch.testing.assert_close(y[0, -1].view(H, E), torch.tensor(last, dtype=torch.float64), rtol=1e-4, atol=1e-6)
    assert y.square().sum().item() == pytest.approx(17.5036221, rel=1e-5)


def test_weights_add_up_to_1_and_read_values_that_are_linear_in_the_keys_where_it_is_told():
    """Values A k: the average at the mean key, less the covariance of A k with r . k."""
    keys, matrix = waves(7, E, step=0.9), waves(E, E, step=1.3)
    scores, r = waves(1, 1, 1, 7, step=0.5), waves(E, step=0.8)
    weights = corrected((keys @ r).view(1, 1, 1, 7), scores, None)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 1, dtype=torch.float64))
    plain = scores.softmax(-1)[0, 0, 0]
    mean = plain @ keys
    covariance = (plain[:, None] * (keys - mean)).mT @ (keys - mean)
    torch.testing.assert_close(weights[0, 0, 0] @ (keys @ matrix), mean @ matrix - r @ covariance @ matrix)


def test_keys_that_are_not_allowed_change_nothing():
    scores, along, lower = waves(1, 2, 6, 6, step=0.5), waves(1, 2, 6, 6, step=0.7), torch.ones(6, 6, dtype=torch.bool).tril()
    masked = corrected(along, scores, lower[None, None])
    assert not masked.masked_select(~lower).any()
    for t in range(6):
        row = (..., slice(t, t + 1), slice(t + 1))
        torch.testing.assert_close(masked[row], corrected(along[row], scores[row], None))
