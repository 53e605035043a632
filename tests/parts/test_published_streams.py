"""Several streams, against transformers' DeepSeek-V4, GLM-5.3, Hy4 and Gemma 3n, and by their sums."""

from __future__ import annotations

import pytest
import torch
from transformers import DeepseekV4Config, Gemma3nTextConfig, HYV4Config
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4HyperConnection, DeepseekV4HyperHead
from transformers.models.gemma3n.modeling_gemma3n import Gemma3nTextAltUp, Gemma3nTextLaurelBlock
from transformers.models.glm5_next.modeling_glm5_next import Glm5NextTextHyperHead
from transformers.models.hy_v4.modeling_hy_v4 import HYV4HyperConnection

from anyformer.parts import AlternatingUpdates, IndependentConnections, LowRankResidual, ManifoldConnections, RMSNorm
from anyformer.parts.call.context import Context
from anyformer.parts.layers.manifold_module import doubly_stochastic
from anyformer.plan import Plan

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


def test_the_stream_behind_the_last_layer_is_that_of_deepseek_v4():
    config = DeepseekV4Config(hidden_size=D, hc_mult=N, hc_eps=1e-3, rms_norm_eps=1e-2)
    theirs, ours = DeepseekV4HyperHead(config), ManifoldConnections(count=N, eps=1e-3, norm_eps=1e-2, merge="learned")
    ends, x = ours.build_ends(D), torch.randn(B, T, N, D)
    pairs = {"dynamic.weight": "hc_fn", "static": "hc_base", "strength": "hc_scale"}
    same_weights(ends.leave, theirs, pairs)
    torch.testing.assert_close(ends.leaving(x), theirs(x))


def test_the_stream_behind_the_last_layer_is_the_mean_of_glm():
    x = torch.randn(B, T, N, D)
    torch.testing.assert_close(ManifoldConnections(merge="mean").merged(x), Glm5NextTextHyperHead()(x))


@torch.no_grad()
def test_a_step_reads_and_writes_as_hy4():
    theirs = HYV4HyperConnection(HYV4Config(hidden_size=D, hc_mult=N, hc_magnitude=1.5, hc_eps=1e-3, rms_norm_eps=1e-2))
    ours = IndependentConnections(count=N, magnitude=1.5, eps=1e-3, norm_eps=1e-2).build(D, 0)
    same_weights(ours, theirs, {"dynamic.weight": "fn", "static": "base", "strength": "scale"})
    x = torch.randn(B, T, N, D)
    write, read = theirs(x)
    own_read, own_streams, own_write = ours(x)
    torch.testing.assert_close(own_read, read)
    torch.testing.assert_close(own_write[..., 0], write)
    assert own_streams is x


@pytest.mark.parametrize("count", [2, 5])
def test_rows_and_columns_sum_to_one(count):
    mix = doubly_stochastic(torch.rand(3, count, count, dtype=torch.float64) + 0.01, 200, 1e-12)
    for dim in (-1, -2):
        torch.testing.assert_close(mix.sum(dim), torch.ones(3, count, dtype=torch.float64), atol=1e-6, rtol=0)


def gemma3n() -> Gemma3nTextConfig:
    return Gemma3nTextConfig(hidden_size=D, altup_num_inputs=N, laurel_rank=5, rms_norm_eps=1e-2)


def same_weights(ours, theirs, names):
    """Random weights of theirs, by our names."""
    torch.manual_seed(0)
    with torch.no_grad():
        for mine, other in names.items():
            weight = theirs.get_parameter(other)
            weight.copy_(torch.randn(weight.shape) * 0.5)
            ours.get_parameter(mine).copy_(weight)


@torch.no_grad()
def test_a_layer_predicts_and_corrects_as_gemma3n():
    theirs, ours = Gemma3nTextAltUp(gemma3n()), AlternatingUpdates(count=N, norm=RMSNorm(eps=1e-2)).build(D)
    pairs = {
        "norm": "router_norm",
        "router": "modality_router",
        "prediction": "prediction_coefs",
        "correction": "correction_coefs",
    }
    same_weights(ours, theirs, {f"{mine}.weight": f"{other}.weight" for mine, other in pairs.items()})
    x, found = torch.randn(B, T, N, D), torch.randn(B, T, D)
    predicted = ours.predicted(x)
    torch.testing.assert_close(predicted, theirs.predict(x.permute(2, 0, 1, 3)).permute(1, 2, 0, 3))
    corrected = theirs.correct(predicted.permute(2, 0, 1, 3), found).permute(1, 2, 0, 3)
    torch.testing.assert_close(ours.corrected(predicted, found), corrected)


@torch.no_grad()
def test_without_coefficients_a_layer_is_added_to_every_stream():
    ours = AlternatingUpdates(count=N).build(D)
    ours.norm.weight.fill_(1)
    for weight in (ours.prediction.weight, ours.correction.weight):
        weight.zero_()
    x, found = torch.randn(B, T, N, D), torch.randn(B, T, D)
    torch.testing.assert_close(ours.predicted(x), x)
    torch.testing.assert_close(ours.corrected(x, found), x + (found - x[:, :, 0])[:, :, None])


@torch.no_grad()
def test_all_streams_are_as_long_as_the_first():
    ends, x = AlternatingUpdates(count=N).build_ends(D), torch.randn(B, T, D)
    streams = ends.entering(x)
    torch.testing.assert_close(streams[:, :, 0], x)
    torch.testing.assert_close(streams.norm(dim=-1), x.norm(dim=-1)[..., None].expand(B, T, N))
    for matrix in ends.leave:
        matrix.weight.copy_(torch.eye(D))
    alike = torch.arange(1, N + 1)[:, None] * x[:, :, None]
    torch.testing.assert_close(ends.leaving(alike), x)


@torch.no_grad()
def test_a_residual_of_low_rank_is_gemma3ns():
    theirs, ours = Gemma3nTextLaurelBlock(gemma3n()), LowRankResidual(rank=5, norm=RMSNorm(eps=1e-2)).build(D, Plan(), "")
    names = {"down": "linear_left", "up": "linear_right", "norm": "post_laurel_norm"}
    same_weights(ours, theirs, {f"{mine}.weight": f"{other}.weight" for mine, other in names.items()})
    x = torch.randn(B, T, D)
    torch.testing.assert_close(ours(x, Context(torch.arange(T)[None], Plan())), theirs(x))
