"""Recurrent mixers and gated convolutions, in chunks, against the pure torch of transformers and flash-linear-attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.parts.race import Comparison
from benchmarks.parts.sides import NO_FLA, Alone, Projected, Read, Side, features, fla, ours, sides, twin
from torch import Tensor, nn
from transformers import KimiLinearConfig, Lfm2Config, MiniMaxConfig, Qwen3NextConfig
from transformers.models.kimi_linear.modeling_kimi_linear import KimiLinearDeltaAttention
from transformers.models.lfm2.modeling_lfm2 import Lfm2ShortConv
from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

from anyformer.parts import (
    ChannelDecay,
    DeltaAttention,
    EluPlusOne,
    Gate,
    GatedConvolution,
    LightningAttention,
    LinearAttention,
    RMSNorm,
    ScalarDecay,
    ShortConvolution,
)
from anyformer.parts.sublayer import Sublayer
from anyformer.plan import Plan

WIDTH, HEADS, HEAD, LENGTH = 384, 6, 64, 1024
STEP_BY_STEP = Plan(chunk=1)
CONFIG = {"num_hidden_layers": 4, "hidden_size": WIDTH, "hidden_act": "silu", "layer_types": ["linear_attention"] * 4}
CONVOLUTION = ShortConvolution(activation="silu")


def convolutions(read: Read, *widths: int) -> dict[str, Tensor]:
    """One depthwise convolution over queries, keys and values, as three of ours."""
    parts = read("conv1d.weight")[:, 0].split(widths)
    return {f"{name}_convolution.weight": part for name, part in zip(("query", "key", "value"), parts, strict=True)}


def gated_delta() -> tuple[Sublayer, Side]:
    """Qwen3-Next: projections interleaved by key head: q, k, two v, two z; two b, two a."""
    values = 2 * HEADS
    config = Qwen3NextConfig(
        linear_num_value_heads=values, linear_num_key_heads=HEADS, linear_key_head_dim=HEAD, linear_value_head_dim=HEAD,
        linear_conv_kernel_dim=4, **CONFIG,
    )  # fmt: skip
    theirs = Qwen3NextGatedDeltaNet(config, 0)

    def weights(read: Read) -> Mapping[str, Tensor]:
        q, k, v, z = read("in_proj_qkvz.weight").view(HEADS, -1, WIDTH).split([HEAD, HEAD, 2 * HEAD, 2 * HEAD], 1)
        b, a = read("in_proj_ba.weight").view(HEADS, -1, WIDTH).split(2, 1)
        return {
            "query.weight": q, "key.weight": k, "value.weight": v, "gate.projection.weight": z, "beta.weight": b,
            "decay.projection.weight": a, "decay.A_log": read("A_log"), "decay.dt_bias": read("dt_bias"),
            "norm.weight": read("norm.weight"), "output.weight": read("out_proj.weight"),
            **convolutions(read, HEADS * HEAD, HEADS * HEAD, values * HEAD),
        }  # fmt: skip

    part = DeltaAttention(
        heads=HEADS, value_heads=values, key_width=HEAD, value_width=HEAD, convolution=CONVOLUTION, decay=ScalarDecay(),
        norm=RMSNorm(eps=1e-6), gate=Gate(activation="silu"),
    )  # fmt: skip
    return part, Side("transformers Qwen3NextGatedDeltaNet", theirs, weights)


def kimi_delta() -> tuple[Sublayer, Side]:
    """Kimi Linear: a decay per channel."""
    config = KimiLinearConfig(
        linear_num_heads=HEADS, linear_head_dim=HEAD, linear_conv_kernel_dim=4, rms_norm_eps=1e-6, **CONFIG
    )
    names = {
        "query": "q_proj", "key": "k_proj", "value": "v_proj", "beta": "b_proj", "gate.down": "g_a_proj",
        "gate.projection": "g_b_proj", "norm": "o_norm", "output": "o_proj", "decay.down": "forget_gate.f_a_proj",
        "decay.projection": "forget_gate.f_b_proj",
    }  # fmt: skip

    def weights(read: Read) -> Mapping[str, Tensor]:
        return {
            **{f"{us}.weight": read(f"{them}.weight") for us, them in names.items()},
            "decay.A_log": read("forget_gate.A_log"), "decay.dt_bias": read("forget_gate.dt_bias"),
            **convolutions(read, *[HEADS * HEAD] * 3),
        }  # fmt: skip

    part = DeltaAttention(
        heads=HEADS, key_width=HEAD, convolution=CONVOLUTION, decay=ChannelDecay(rank=HEAD), norm=RMSNorm(eps=1e-6),
        gate=Gate(rank=HEAD),
    )  # fmt: skip
    return part, Side("transformers KimiLinearDeltaAttention", KimiLinearDeltaAttention(config, 0), weights)


def lightning() -> tuple[Sublayer, Side]:
    """MiniMax, layer 1 of 4: queries, keys and values interleaved by head, blocks of 256 as published."""
    theirs = MiniMaxLightningAttention(MiniMaxConfig(num_attention_heads=HEADS, head_dim=HEAD, **CONFIG), 1)

    def weights(read: Read) -> Mapping[str, Tensor]:
        q, k, v = read("qkv_proj.weight").view(HEADS, -1, WIDTH).split(HEAD, 1)
        return {
            "query.weight": q, "key.weight": k, "value.weight": v, "norm.weight": read("norm.weight"),
            "gate.projection.weight": read("output_gate.weight"), "output.weight": read("out_proj.weight"),
        }  # fmt: skip

    decay = 1 - 1 / (3 + 1e-5) + 1e-5
    part = LightningAttention(heads=HEADS, decay=decay, activation="silu", norm=RMSNorm(eps=1e-6), gate=Gate())
    return part, Side("transformers MiniMaxLightningAttention", theirs, weights, lambda x: theirs(x, None, None)[0])


def convolution() -> tuple[Sublayer, Side]:
    """LFM2."""
    config = Lfm2Config(hidden_size=WIDTH, num_hidden_layers=2, conv_bias=False, conv_L_cache=3, layer_types=["conv"] * 2)

    def weights(read: Read) -> Mapping[str, Tensor]:
        before, after, value = read("in_proj.weight").split(WIDTH)
        return {
            "gate_before.weight": before, "gate_after.weight": after, "value.weight": value,
            "convolution.weight": read("conv.weight")[:, 0], "output.weight": read("out_proj.weight"),
        }  # fmt: skip

    return GatedConvolution(), Side("transformers Lfm2ShortConv", Lfm2ShortConv(config, 0), weights)


def published(
    family: Callable[[], tuple[Sublayer, Side]],
    batch: int,
    length: int = LENGTH,
    *,
    steps: bool,
    train: bool = True,
    compiled: bool = False,
) -> Comparison:
    """A whole mixer against transformers' module in pure torch, and, with `steps`, against our own token by token."""
    part, peer = family()
    others = [peer, twin(Alone(part, WIDTH, STEP_BY_STEP), "token by token")] if steps else [peer]
    shape = f"{batch} x {length} x {WIDTH}, {HEADS} heads"
    return sides(shape, ours(Alone(part, WIDTH)), others, features(batch, length, WIDTH), train=train, compiled=compiled)


def linear() -> Comparison:
    """Linear attention with elu + 1."""
    part, length = LinearAttention(heads=HEADS, feature_map=EluPlusOne(), eps=1e-10), 2 * LENGTH
    others, reference = [twin(Alone(part, WIDTH, STEP_BY_STEP), "token by token")], fla("linear_attn")
    if reference is not None:

        def core(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            q, k = (nn.functional.elu(x) + 1 for x in (q, k))
            return reference.naive_chunk_linear_attn(q, k, v, scale=1.0, normalize=True)  # type: ignore[no-any-return]

        others.append(Side("flash-linear-attention naive_chunk_linear_attn", Projected(core, WIDTH, HEADS)))
    shape = f"elu + 1, {HEADS} heads: 1 x {length} x {WIDTH}"
    missing = NO_FLA if reference is None else {}
    return sides(shape, ours(Alone(part, WIDTH)), others, features(1, length, WIDTH), missing=missing)


COMPARISONS: Mapping[str, Callable[[], Comparison]] = {
    "linear attention": linear,
    "gated delta": partial(published, gated_delta, 1, steps=True),
    "kimi delta": partial(published, kimi_delta, 1, steps=True),
    "lightning attention": partial(published, lightning, 1, steps=True),
    "gated convolution": partial(published, convolution, 4, steps=False),
    "gated convolution, compiled": partial(published, convolution, 4, steps=False, compiled=True),
}
