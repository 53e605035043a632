"""Attention written out: what is computed in which type."""

from __future__ import annotations

import pytest
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


@pytest.mark.parametrize(("heads", "width", "value"), [(2, 8, 8), (6, 8, 8), (6, 8, 6)])
def test_one_query_over_a_cache_of_16_bits_is_as_near_to_fp32_on_either_processor(heads, width, value, tiles, monkeypatch):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, heads, 1, width), torch.randn(3, 2, 40, width), torch.randn(3, 2, 40, value)
    visible = Visible(torch.rand(3, 1, 1, 40) < 0.7)
    called, kernel = [], torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        "torch.nn.functional.scaled_dot_product_attention", lambda *given, **more: called.append(1) or kernel(*given, **more)
    )
    found = attend(q.bfloat16(), k.bfloat16(), v.bfloat16(), visible, scale=0.3)
    assert bool(called) == (tiles and width == value), (
        "torch's kernel is fast for 16 bits with AMX, and for values as wide as keys"
    )
    torch.testing.assert_close(found.float(), attend(q, k, v, visible, scale=0.3, kernel="plain"), rtol=0, atol=0.02)


@pytest.mark.parametrize("queries", [1, 40])
def test_a_compiler_sees_one_graph_in_16_bits(queries):
    q, k, v = (torch.randn(2, 4, count, 8).bfloat16() for count in (queries, 40, 40))
    compiled = torch.compile(attend, backend="eager", fullgraph=True)
    found = compiled(q, k, v, Visible(None), scale=0.3)
    torch.testing.assert_close(found, attend(q, k, v, Visible(None), scale=0.3), rtol=0, atol=0.03)
