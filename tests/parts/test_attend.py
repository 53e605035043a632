"""Attention written out: what is computed in which type."""

from __future__ import annotations

import torch

from anyformer.parts.attention.attend import attend
from anyformer.parts.call.context import Visible


def test_scores_are_scaled_and_normalised_in_fp32():
    """With values that pick out one key each the result is the shares: those of fp32, rounded once."""
    generator = torch.Generator().manual_seed(0)
    q, k = (4 * torch.randn(1, 1, 16, 8, generator=generator).bfloat16() for _ in range(2))
    shares = attend(q, k, torch.eye(16).bfloat16()[None, None], Visible(None), scale=0.37, kernel="plain")
    exact = ((q @ k.mT).double() * 0.37).softmax(-1)
    torch.testing.assert_close(shares.double(), exact, rtol=2**-8, atol=1e-6)
