"""Recurrent mixers against the published implementations, weight by weight."""

from __future__ import annotations

import pytest
import torch
from transformers import KimiLinearConfig, Lfm2Config, MiniMaxConfig, Qwen3NextConfig
from transformers.models.kimi_linear.modeling_kimi_linear import KimiLinearDeltaAttention
from transformers.models.lfm2.modeling_lfm2 import Lfm2ShortConv
from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

from anyformer.parts import (
    ChannelDecay,
    DeltaAttention,
    Gate,
    GatedConvolution,
    LightningAttention,
    RMSNorm,
    ScalarDecay,
    ShortConvolution,
)
from anyformer.parts.call.context import Context
from anyformer.plan import Plan

B, T, D = 2, 13, 24
CONVOLUTION = ShortConvolution(activation="silu")
LINEAR = {"num_hidden_layers": 4, "hidden_size": D, "hidden_act": "silu"}


def loud(module: torch.nn.Module) -> torch.nn.Module:
    """With weights of which every part leaves a trace."""
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.4, generator=generator)
    return module.eval()


def flat(weight: torch.Tensor) -> torch.Tensor:
    return weight.reshape(-1, D)


def convolutions(theirs, *widths: int) -> dict[str, torch.Tensor]:
    parts = theirs.conv1d.weight[:, 0].split(widths)
    return {f"{name}_convolution.weight": part for name, part in zip(("query", "key", "value"), parts, strict=True)}


def qwen3_next():
    """Projections are interleaved by key head: q, k, two v, two z; two b, two a."""
    config = Qwen3NextConfig(
        linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=6, linear_value_head_dim=8,
        linear_conv_kernel_dim=4, **LINEAR,
    )  # fmt: skip
    theirs = loud(Qwen3NextGatedDeltaNet(config, 0))
    q, k, v, z = theirs.in_proj_qkvz.weight.view(2, -1, D).split([6, 6, 16, 16], 1)
    b, a = theirs.in_proj_ba.weight.view(2, -1, D).split(2, 1)
    ours = DeltaAttention(
        heads=2, value_heads=4, key_width=6, value_width=8, convolution=CONVOLUTION, decay=ScalarDecay(),
        norm=RMSNorm(eps=1e-6), gate=Gate(activation="silu"),
    )  # fmt: skip
    weights = {
        "query.weight": flat(q), "key.weight": flat(k), "value.weight": flat(v), "gate.projection.weight": flat(z),
        "beta.weight": flat(b), "decay.projection.weight": flat(a), "decay.A_log": theirs.A_log,
        "decay.dt_bias": theirs.dt_bias,
        "norm.weight": theirs.norm.weight, "output.weight": theirs.out_proj.weight,
    }  # fmt: skip
    return ours, weights | convolutions(theirs, 12, 12, 32), theirs


def kimi_linear():
    kinds = ["linear_attention"] * 4
    config = KimiLinearConfig(
        linear_num_heads=4, linear_head_dim=8, linear_conv_kernel_dim=4, rms_norm_eps=1e-6, layer_types=kinds, **LINEAR
    )
    theirs = loud(KimiLinearDeltaAttention(config, 0))
    ours = DeltaAttention(
        heads=4, key_width=8, convolution=CONVOLUTION, decay=ChannelDecay(rank=8), norm=RMSNorm(eps=1e-6), gate=Gate(rank=8)
    )
    forget = theirs.forget_gate
    weights = {
        "query.weight": theirs.q_proj.weight, "key.weight": theirs.k_proj.weight, "value.weight": theirs.v_proj.weight,
        "beta.weight": theirs.b_proj.weight, "gate.down.weight": theirs.g_a_proj.weight,
        "gate.projection.weight": theirs.g_b_proj.weight, "norm.weight": theirs.o_norm.weight,
        "output.weight": theirs.o_proj.weight, "decay.down.weight": forget.f_a_proj.weight,
        "decay.projection.weight": forget.f_b_proj.weight, "decay.A_log": forget.A_log.flatten(),
        "decay.dt_bias": forget.dt_bias,
    }  # fmt: skip
    return ours, weights | convolutions(theirs, 32, 32, 32), theirs


def minimax():
    """Layer 1 of 4; queries, keys and values are interleaved by head."""
    kinds = ["linear_attention"] * 4
    theirs = MiniMaxLightningAttention(
        MiniMaxConfig(num_attention_heads=4, head_dim=6, block_size=5, layer_types=kinds, **LINEAR), 1
    )
    q, k, v = loud(theirs).qkv_proj.weight.view(4, -1, D).split(6, 1)
    ours = LightningAttention(heads=4, decay="by_layer", activation="silu", norm=RMSNorm(eps=1e-6), gate=Gate()).of_layer(1, 4)
    weights = {
        "query.weight": flat(q), "key.weight": flat(k), "value.weight": flat(v), "norm.weight": theirs.norm.weight,
        "gate.projection.weight": theirs.output_gate.weight, "output.weight": theirs.out_proj.weight,
    }  # fmt: skip
    return ours, weights, lambda x: theirs(x, None, None)[0]


def lfm2():
    config = Lfm2Config(hidden_size=D, num_hidden_layers=2, conv_bias=False, conv_L_cache=3, layer_types=["conv"] * 2)
    theirs = loud(Lfm2ShortConv(config, 0))
    before, after, value = theirs.in_proj.weight.split(D)
    weights = {
        "gate_before.weight": before, "gate_after.weight": after, "value.weight": value,
        "convolution.weight": theirs.conv.weight[:, 0], "output.weight": theirs.out_proj.weight,
    }  # fmt: skip
    return GatedConvolution(), weights, theirs


@pytest.mark.parametrize("family", [qwen3_next, kimi_linear, minimax, lfm2])
@pytest.mark.parametrize("chunk", [4, 64])
def test_the_same_weights_give_the_same_outputs(family, chunk):
    description, weights, theirs = family()
    plan = Plan(chunk=chunk)
    ours = description.build(D, plan, "mixer")
    ours.load_state_dict(weights)
    x = torch.randn(B, T, D, generator=torch.Generator().manual_seed(1))
    context = Context(positions=torch.arange(T)[None], plan=plan, padded=False)
    with torch.no_grad():
        torch.testing.assert_close(ours(x, context), theirs(x), rtol=1e-4, atol=1e-5)
