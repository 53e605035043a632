"""Sparse activations, against transformers' Gemma 3n, and by the share that is left."""

from __future__ import annotations

import pytest
import torch
from transformers import Gemma3nTextConfig
from transformers.models.gemma3n.modeling_gemma3n import Gemma3nTextMLP

from anyformer.describe import DescriptionError
from anyformer.parts import FeedForward, StatisticalTopK


@pytest.mark.parametrize("sparsity", [0.3, 0.5, 0.95])
def test_what_is_left_is_what_gemma3n_leaves(sparsity):
    pattern = {"num_hidden_layers": 1, "layer_types": ["full_attention"], "activation_sparsity_pattern": [sparsity]}
    theirs = Gemma3nTextMLP(Gemma3nTextConfig(hidden_size=8, intermediate_size=12, num_kv_shared_layers=0, **pattern))
    x = torch.randn(3, 5, 12, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(StatisticalTopK(sparsity=sparsity).kept(x), theirs._gaussian_topk(x))


@pytest.mark.parametrize("sparsity", [0.1, 0.5, 0.95])
def test_that_share_of_normal_features_becomes_zero(sparsity):
    x = 3 + 2 * torch.randn(4, 100_000, generator=torch.Generator().manual_seed(0))
    zeros = (StatisticalTopK(sparsity=sparsity).kept(x) == 0).float().mean(-1)
    torch.testing.assert_close(zeros, torch.full((4,), sparsity), atol=5e-3, rtol=0)


def test_a_threshold_over_all_features_is_not_divided():
    network = FeedForward(width=8)
    assert network.narrowed(8, 2) is not None
    assert network.but(sparse=StatisticalTopK()).narrowed(8, 2) is None
    with pytest.raises(DescriptionError, match="less than 1"):
        StatisticalTopK(sparsity=1.0)
