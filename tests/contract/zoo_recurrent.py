"""Mixers with a recurrent state for the zoo: every kind and every field."""

from __future__ import annotations

from anyformer.parts import (
    MLSTM,
    RGLRU,
    RWKV,
    RWKV7,
    SLSTM,
    ChannelDecay,
    Comba,
    DeltaAttention,
    EluPlusOne,
    Exponential,
    ExponentialNormalised,
    Gate,
    GatedConvolution,
    GatedDelta2,
    GatedLinearAttention,
    GatedSlotAttention,
    GroupedLayerNorm,
    GroupedRMSNorm,
    Identity,
    LayerNorm,
    LightningAttention,
    LinearAttention,
    LocalConvolution,
    LogLinearAttention,
    Mamba,
    Mamba2,
    Mamba3,
    MesaLayer,
    Multipliers,
    PathAttention,
    PositiveRandom,
    RandomFourier,
    Rectified,
    RMSNorm,
    Rotary,
    RWKV7ChannelMix,
    RWKVChannelMix,
    ScalarDecay,
    ShortConvolution,
    TTTLinear,
    UnitLength,
)

CONVOLUTION = ShortConvolution(activation="silu")
GATED_DELTA = DeltaAttention(
    heads=2,
    value_heads=4,
    key_width=6,
    value_width=4,
    convolution=CONVOLUTION,
    decay=ScalarDecay(),
    norm=RMSNorm(eps=1e-6),
    gate=Gate(activation="silu"),
)

MIXERS = {
    "linear_elu": LinearAttention(heads=4, feature_map=EluPlusOne(), eps=1e-6),
    "linear_identity_rotary": LinearAttention(heads=4, kv_heads=2, feature_map=Identity(), rotary=Rotary()),
    "linear_unit_length": LinearAttention(heads=4, feature_map=UnitLength(eps=1e-2)),
    "linear_rectified": LinearAttention(
        heads=3, kv_heads=1, feature_map=Rectified(), eps=1.0, bias=("query", "key", "value", "output")
    ),
    "linear_squared": LinearAttention(heads=4, head_width=5, feature_map=Rectified(power=2), eps=1.0),
    "linear_exponential": LinearAttention(heads=4, kv_heads=2, feature_map=Exponential(), eps=1e-6),
    "linear_exponential_scale": LinearAttention(heads=4, feature_map=Exponential(scale=0.5), eps=1e-6),
    "linear_exponential_normalised": LinearAttention(heads=4, feature_map=ExponentialNormalised(scale=0.7), eps=1e-6),
    "linear_fourier": LinearAttention(heads=4, feature_map=RandomFourier(count=8, orthogonal=True, scale=0.1)),
    "linear_gaussian": LinearAttention(heads=4, feature_map=RandomFourier(count=4, kernel="gaussian", seed=2)),
    "linear_positive": LinearAttention(heads=4, kv_heads=2, feature_map=PositiveRandom(count=16, seed=3, scale=0.3), eps=1e-6),
    "linear_orthogonal": LinearAttention(heads=4, feature_map=PositiveRandom(count=8, orthogonal=True), eps=1e-6),
    "lightning": LightningAttention(heads=4, decay=0.9, activation="silu", norm=RMSNorm(eps=1e-6), gate=Gate()),
    "lightning_learned_activation": LightningAttention(
        heads=2, decay="by_layer", activation="swish", gate=Gate(activation="prelu")
    ),
    "lightning_plain": LightningAttention(heads=3, head_width=5, bias=("output",), decay=4.0),
    "gated_linear": GatedLinearAttention(
        heads=4, rank=3, temperature=16.0, norm=RMSNorm(eps=1e-6), gate=Gate(activation="silu"), bias=("key", "output")
    ),
    "gated_linear_complement": GatedLinearAttention(
        heads=2, head_width=5, keys="complement", least=0.3, activation="silu", scale=1.0, norm=RMSNorm(eps=1e-2)
    ),
    "gated_linear_learned_activation": GatedLinearAttention(heads=3, keys="complement", activation="swish"),
    "comba": Comba(
        heads=2, key_width=6, value_width=4, convolution=CONVOLUTION, norm=RMSNorm(eps=1e-6), gate=Gate(activation="silu")
    ),
    "comba_plain": Comba(heads=3, key_width=5, length_eps=1e-2, scale=0.7),
    "gated_slots": GatedSlotAttention(heads=4, kv_heads=2, key_width=5, value_width=3, slots=6, norm=RMSNorm(eps=1e-5)),
    "gated_slots_options": GatedSlotAttention(
        heads=2, key_width=4, slots=3, convolution=CONVOLUTION, temperature=2.0, scale=0.7
    ),
    "gated_slots_plain": GatedSlotAttention(heads=2, key_width=4),
    "path": PathAttention(
        heads=4, kv_heads=2, rank=3, convolution=ShortConvolution(kernel=3, activation="silu"), qk_norm=RMSNorm(eps=1e-3)
    ),
    "path_plain": PathAttention(heads=3, head_width=5, scale=0.7, length_eps=1e-2),
    "mesa": MesaLayer(
        heads=2,
        key_width=6,
        value_width=4,
        convolution=CONVOLUTION,
        iterations=16,
        norm=RMSNorm(eps=1e-6),
        gate=Gate(activation="silu"),
    ),
    "mesa_plain": MesaLayer(heads=3, key_width=5, least=0.5, length_eps=1e-2),
    "gated_delta_2": GatedDelta2(
        heads=2,
        key_width=6,
        value_width=4,
        convolution=CONVOLUTION,
        decay=ChannelDecay(rank=4),
        norm=RMSNorm(eps=1e-6),
        gate=Gate(activation="silu"),
    ),
    "gated_delta_2_plain": GatedDelta2(heads=3, key_width=5, erase_scale=2.0, length_eps=1e-2, scale=0.7),
    "delta": DeltaAttention(heads=4, key_width=5),
    "delta_gated": GATED_DELTA,
    "delta_negative": DeltaAttention(heads=2, key_width=6, value_width=3, decay=ScalarDecay(), beta_scale=2.0),
    "delta_product": DeltaAttention(
        heads=2,
        value_heads=4,
        key_width=4,
        value_width=3,
        steps=2,
        convolution=CONVOLUTION,
        decay=ScalarDecay(),
        beta_scale=2.0,
    ),
    "delta_channels": DeltaAttention(
        heads=3,
        key_width=6,
        convolution=CONVOLUTION,
        decay=ChannelDecay(rank=4),
        norm=RMSNorm(),
        gate=Gate(rank=4, bias=True),
        scale=0.9,
    ),
    "delta_channels_bound": DeltaAttention(
        heads=2, value_heads=4, key_width=6, decay=ChannelDecay(bound=5.0), length_eps=1e-2, norm=RMSNorm(eps=1e-2)
    ),
    "gated_convolution": GatedConvolution(),
    "local_convolution": LocalConvolution(),
    "local_convolution_wide": LocalConvolution(convolution=ShortConvolution(kernel=2, activation="silu", bias=True)),
    "gated_convolution_learned_activation": GatedConvolution(convolution=ShortConvolution(activation="prelu")),
    "gated_convolution_wide": GatedConvolution(
        convolution=ShortConvolution(kernel=7, activation="silu", bias=True),
        bias=("gate_before", "gate_after", "value", "output"),
    ),
    "mamba": Mamba(
        channels=10,
        state_width=4,
        step_rank=3,
        convolution=ShortConvolution(activation="silu", bias=True),
        inner_norm=RMSNorm(eps=1e-3),
    ),
    "mamba_bare": Mamba(channels=8, state_width=3, step_rank=2, bias=("gate", "value", "output")),
    "mamba2": Mamba2(
        heads=4,
        head_width=6,
        state_width=5,
        groups=2,
        convolution=ShortConvolution(activation="silu", bias=True),
        norm=GroupedRMSNorm(groups=2, eps=1e-3, gain="one_plus_weight", bias=True, cast="after_gain"),
    ),
    "mamba2_bare": Mamba2(heads=3, head_width=4, state_width=6),
    "mamba2_limits": Mamba2(
        heads=2,
        head_width=5,
        state_width=3,
        groups=2,
        step_floor=0.02,
        step_ceiling=0.06,
        norm=RMSNorm(eps=1e-2),
        gate_at="after_norm",
        bias=("gate", "value", "key", "query", "step", "output"),
        multipliers=Multipliers(gate=0.5, value=1.5, key=0.8, query=1.2, step=0.6),
    ),
    "mamba3": Mamba3(
        heads=4,
        head_width=6,
        state_width=5,
        groups=2,
        angles=2,
        qk_norm=RMSNorm(eps=1e-5),
        norm=GroupedRMSNorm(groups=4, eps=1e-3),
    ),
    "mamba3_bare": Mamba3(heads=3, head_width=4, state_width=6),
    "mamba3_limits": Mamba3(
        heads=2,
        head_width=5,
        state_width=6,
        groups=2,
        angles=3,
        decay_floor=0.6,
        bias=("gate", "value", "key", "query", "step", "decay", "trapezoid", "angle", "output"),
    ),
    "rwkv": RWKV(channels=12),
    "rwkv_channel_mix": RWKVChannelMix(width=20),
    "rwkv7": RWKV7(heads=3, head_width=4, decay_rank=5, rate_rank=3, gate_rank=7),
    "rwkv7_channel_mix": RWKV7ChannelMix(width=20),
    "ttt_linear": TTTLinear(heads=3, head_width=4, minibatch=4, rotary=Rotary(), norm=LayerNorm(eps=1e-6)),
    "ttt_linear_options": TTTLinear(
        heads=4, minibatch=2, base_rate=2.0, eps=0.1, gate=Gate(activation="gelu_tanh"), bias=("query", "output")
    ),
    "ttt_linear_long": TTTLinear(heads=2),
    "log_linear": LogLinearAttention(
        heads=3, key_width=4, value_width=5, levels=3, decay=ScalarDecay(), norm=RMSNorm(), gate=Gate()
    ),
    "log_linear_bare": LogLinearAttention(heads=2, key_width=5, scale=0.7),
    "mlstm": MLSTM(heads=3, key_width=4, value_width=6, norm=GroupedLayerNorm(groups=3, eps=1e-3)),
    "mlstm_bare": MLSTM(heads=2, key_width=5, value_width=4, gate_cap=0.7, bias=("query", "key", "value", "gate", "output")),
    "slstm": SLSTM(
        heads=4, convolution=ShortConvolution(activation="silu", bias=True), norm=GroupedLayerNorm(groups=4, eps=1e-3)
    ),
    "slstm_bare": SLSTM(heads=2),
    "rg_lru": RGLRU(channels=12, heads=3, convolution=ShortConvolution(bias=True), bias=("gate", "value", "output")),
    "rg_lru_bare": RGLRU(channels=8, heads=2, activation="prelu", strength=3.0),
}

HYBRIDS = ["lightning", "delta_gated", "delta_channels", "gated_convolution", "mamba", "mamba2", "rg_lru", "rwkv"]
"""Those that stand beside attention."""
