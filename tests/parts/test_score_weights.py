"""What stands in the place of the softmax: sums, signs, large scores, and keys that are not allowed."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from anyformer.describe import DescriptionError
from anyformer.parts import Attention, Map, SigmoidWeights, Softpick
from anyformer.parts.attention.attend import PLAIN_LIMIT, attend
from anyformer.parts.call.context import Visible

KINDS = [SigmoidWeights(), SigmoidWeights(length=5), Softpick(), Softpick(eps=0.2)]
SHAPE = (2, 3, 6, 6)
LOWER = torch.ones(6, 6, dtype=torch.bool).tril()[None, None]


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("weights", KINDS)
def test_keys_that_are_not_allowed_change_nothing(weights):
    """Each query's weights are those of its own keys alone."""
    scores = 2 * drawn(*SHAPE)
    masked = weights.weights(scores, LOWER, None)
    assert not masked.masked_select(~LOWER).any()
    for t in range(6):
        alone = weights.weights(scores[:, :, t : t + 1, : t + 1], None, None)
        torch.testing.assert_close(masked[:, :, t : t + 1, : t + 1], alone)


@pytest.mark.parametrize("n", [1, 4, 1000])
def test_sigmoids_of_equal_scores_add_up_to_about_1(n):
    total = SigmoidWeights().weights(torch.zeros(1, 1, 1, n), None, None).sum()
    torch.testing.assert_close(total, torch.tensor(n / (n + 1)))


def test_a_sigmoid_weighs_each_key_by_itself():
    weights, scores = SigmoidWeights(length=8), drawn(*SHAPE)
    other = scores.clone()
    other[..., 0] += 3
    assert torch.equal(weights.weights(scores, None, None)[..., 1:], weights.weights(other, None, None)[..., 1:])


def test_softpick_leaves_negative_scores_out_and_lets_them_learn():
    scores = drawn(*SHAPE).requires_grad_()
    weights = Softpick().weights(scores, None, None)
    assert torch.equal(weights > 0, scores > 0)
    weights.square().sum().backward()
    assert scores.grad[(scores > 0).any(-1)].all()


def test_softpick_without_a_positive_score_picks_nothing():
    assert not Softpick().weights(-drawn(*SHAPE).abs(), LOWER, None).any()


def test_softpick_of_positive_scores_adds_up_to_1():
    total = Softpick().weights(1 + drawn(*SHAPE).abs(), LOWER, None).sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total))


@pytest.mark.parametrize("weights", KINDS)
def test_large_scores_overflow_nothing(weights):
    scores = torch.tensor([[[[1e4, -1e4, 0.0, 5e3]]]]).requires_grad_()
    shares = weights.weights(scores, None, None)
    torch.testing.assert_close(shares[..., :2], torch.tensor([[[[1.0, 0.0]]]]))
    shares.sum().backward()
    assert scores.grad.isfinite().all()


def test_softpick_is_its_formula():
    scores = drawn(*SHAPE).double()
    beyond = scores.exp() - 1
    expected = beyond.relu() / (beyond.abs().sum(-1, keepdim=True) + 0.2)
    torch.testing.assert_close(Softpick(eps=0.2).weights(scores, None, None), expected)


@pytest.mark.parametrize("kernel", ["plain", "sdpa", "auto"])
@pytest.mark.parametrize("weights", KINDS)
def test_every_kernel_weighs_alike(weights: Map, kernel: str):
    """`auto` and `sdpa` have no kernel for them, however many keys there are."""
    S = PLAIN_LIMIT + 3
    q, k, v = drawn(1, 4, S, 8), drawn(1, 2, S, 8, seed=1), drawn(1, 2, S, 8, seed=2)
    mixed = attend(q, k, v, Visible(causal=True), scale=0.4, weigh=partial(weights.weights, call=None), kernel=kernel)
    scores = q @ k.repeat_interleave(2, 1).mT * 0.4
    shares = weights.weights(scores, torch.ones(S, S, dtype=torch.bool).tril()[None, None], None)
    torch.testing.assert_close(mixed, shares @ v.repeat_interleave(2, 1))


def test_sixteen_bits_are_weighed_in_fp32():
    q, k = drawn(1, 1, 9, 8).bfloat16(), drawn(1, 1, 9, 8, seed=1).bfloat16()
    mixed = attend(
        q,
        k,
        torch.eye(9).bfloat16()[None, None],
        Visible(),
        scale=0.25,
        weigh=partial(Softpick().weights, call=None),
        kernel="plain",
    )
    exact = Softpick().weights((q @ k.mT).float() * 0.25, None, None)
    torch.testing.assert_close(mixed, exact.bfloat16(), rtol=0, atol=0)


def test_a_sink_needs_a_softmax():
    with pytest.raises(DescriptionError, match="has no field 'sink'"):
        Attention(heads=2, weigh={"kind": "softpick", "sink": "head"})
