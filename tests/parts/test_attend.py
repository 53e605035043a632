"""Attention written out: what is computed in which type."""

from __future__ import annotations

import torch

from anyformer.parts.attention.attend import attend
from anyformer.parts.attention.scores import scores
from anyformer.parts.call.context import Visible


def test_scores_are_scaled_and_normalised_in_fp32():
    """With values that pick out one key each the result is the shares: those of fp32, rounded once."""
    generator = torch.Generator().manual_seed(0)
    q, k = (4 * torch.randn(1, 1, 16, 8, generator=generator).bfloat16() for _ in range(2))
    shares = attend(q, k, torch.eye(16).bfloat16()[None, None], Visible(None), scale=0.37, kernel="plain")
    exact = ((q @ k.mT).double() * 0.37).softmax(-1)
    torch.testing.assert_close(shares.double(), exact, rtol=2**-8, atol=1e-6)


def test_scores_of_16_bits_under_a_power_of_two_are_those_of_fp32():
    """They stay in 16 bits, and no number changes."""
    q, k = (torch.randn(1, 2, 9, 16, generator=torch.Generator().manual_seed(seed)).bfloat16() for seed in (0, 1))
    narrow = scores(q, k, 0.25, None, None)
    assert narrow.dtype == torch.bfloat16
    assert torch.equal(narrow.float(), (q @ k.mT).float() * 0.25)
    assert scores(q, k, 0.3, None, None).dtype == torch.float32
