"""Streams mixed by doubly stochastic matrices, against transformers' DeepSeek-V4 and GLM-5.3, and by their sums."""

from __future__ import annotations

import pytest
import torch
from transformers import DeepseekV4Config
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4HyperConnection
from transformers.models.glm5_next.modeling_glm5_next import Glm5NextTextHyperHead

from anyformer.parts import ManifoldConnections
from anyformer.parts.layers.manifold import doubly_stochastic

B, T, N, D = 2, 5, 4, 24


def test_a_step_reads_mixes_and_writes_as_deepseek_v4():
    config = DeepseekV4Config(hidden_size=D, hc_mult=N, hc_sinkhorn_iters=7, hc_eps=1e-3, rms_norm_eps=1e-2)
    theirs = DeepseekV4HyperConnection(config)
    ours = ManifoldConnections(count=N, iterations=7, eps=1e-3, norm_eps=1e-2).build(D, 0)
    torch.manual_seed(0)
    with torch.no_grad():
        for mine, other in ((ours.dynamic.weight, theirs.fn), (ours.static, theirs.base), (ours.strength, theirs.scale)):
            other.copy_(torch.randn(mine.shape) * 0.5)
            mine.copy_(other)
        x = torch.randn(B, T, N, D)
        write, mix, read = theirs(x)
        own_read, own_mixed, own_write = ours(x)
    torch.testing.assert_close(own_read, read)
    torch.testing.assert_close(own_mixed, mix.mT @ x)
    torch.testing.assert_close(own_write[..., 0], write)


def test_the_stream_behind_the_last_layer_is_the_mean_of_glm():
    x = torch.randn(B, T, N, D)
    torch.testing.assert_close(ManifoldConnections(merge="mean").merged(x), Glm5NextTextHyperHead()(x))


@pytest.mark.parametrize("count", [2, 5])
def test_rows_and_columns_sum_to_one(count):
    mix = doubly_stochastic(torch.rand(3, count, count, dtype=torch.float64) + 0.01, 200, 1e-12)
    for dim in (-1, -2):
        torch.testing.assert_close(mix.sum(dim), torch.ones(3, count, dtype=torch.float64), atol=1e-6, rtol=0)
