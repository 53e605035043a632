"""Attention written out: what is computed in which type."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from anyformer.parts.attention import attend as attending
from anyformer.parts.attention.attend import attend
from anyformer.parts.call.context import Visible


def test_scores_are_scaled_and_normalised_in_fp32():
    """With values that pick out one key each the result is the shares: those of fp32, rounded once."""
    generator = torch.Generator().manual_seed(0)
    q, k = (4 * torch.randn(1, 1, 16, 8, generator=generator).bfloat16() for _ in range(2))
    shares = attend(q, k, torch.eye(16).bfloat16()[None, None], Visible(None), scale=0.37, kernel="plain")
    exact = ((q @ k.mT).double() * 0.37).softmax(-1)
    torch.testing.assert_close(shares.double(), exact, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("length", [5, 64, 130, 300])
@pytest.mark.parametrize("bias", [None, (1, 4, 1), (2, 1, 0)], ids=["plain", "one row of bias", "bias"])
def test_blocks_of_causal_attention_are_the_whole(length, bias):
    """What a compiler reads, forward and backward, against all scores under a triangle: grouped heads, and any bias."""
    generator = torch.Generator().manual_seed(length)
    drawn = partial(torch.randn, generator=generator, dtype=torch.float64)
    given = [drawn(2, heads, length, 8).requires_grad_() for heads in (4, 2, 2)]
    added = None if bias is None else drawn(*bias[:2], bias[2] or length, length)
    visible = Visible(causal=True)
    whole = attend(*given, visible, scale=0.25, bias_BHTS=added, kernel="plain")
    written_out = partial(attending._written_out, scale=0.25, softcap=None, sink_H=None, drop=None)
    blocks = attending._triangular(written_out, *given, added)
    torch.testing.assert_close(blocks, whole, rtol=1e-5, atol=1e-6)  # Scores are in fp32.
    gradient = drawn(*whole.shape)
    for found, exact in zip(*(torch.autograd.grad(y, given, gradient) for y in (blocks, whole)), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)


def test_scores_of_16_bits_under_a_power_of_two_are_those_of_fp32():
    """They stay in 16 bits, and no number changes."""
    q, k = (torch.randn(1, 2, 9, 16, generator=torch.Generator().manual_seed(seed)).bfloat16() for seed in (0, 1))
    narrow = attending.scores(q, k, 0.25, None, None)
    assert narrow.dtype == torch.bfloat16
    assert torch.equal(narrow.float(), (q @ k.mT).float() * 0.25)
    assert attending.scores(q, k, 0.3, None, None).dtype == torch.float32
