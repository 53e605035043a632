"""Hunyuan 3: queries and keys normalised before their rotation, one dense layer, DeepSeek-V3's choice without groups."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, QK_NORM, decoder_names, one_by_one, shared_names
from anyformer.model import Architecture
from anyformer.parts import QKNorm, Renormalise

_NAMES = {
    "experts.router": "mlp.router.gate",
    "experts.router.correction": "mlp.expert_bias",
    **one_by_one("mlp.experts"),
    **shared_names("mlp.shared_mlp"),
}


def read(config: Config) -> Architecture:
    norm, rotary = words.rms_norm(config, 1e-5), words.rotary(config, theta=11_158_840.0)
    heads = words.attention(config, kv_heads=8, head_width=128, qk_norm=QKNorm(norm=norm), rotary=rotary)
    biased = config("mlp_bias", False, lambda target: bool(target("experts.shared.feedforward.bias")))
    dense = words.feedforward(config, width=13312, bias=biased)
    router = words.sigmoid_router(config, renormalise=Renormalise(), scale=2.826, key="router_scaling_factor")
    experts = words.experts(config, router, count=192, chosen=8, width=1536)
    experts = words.shared_of(config, experts, 1, "num_shared_experts", bias=dense.bias)
    layers = words.expert_layers(config, norm, lambda _: heads, experts, dense, words.mlp_types(config, 1))
    return words.decoder(config, layers, norm)


FAMILIES = (
    Family(
        "hy_v3",
        read,
        decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, _NAMES, NORMS),
        "HYV3ForCausalLM",
        # In which type two sums of the network's are added: the same numbers, but for their rounding.
        inert=("enable_moe_fp32_combine",),
        ignored=(r"model\.layers\.80\..*",),
    ),
)
