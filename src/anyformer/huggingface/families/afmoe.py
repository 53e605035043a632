"""AFMoE, Arcee's Trinity: sandwich norms, gated attention, rotary positions in windows only, DeepSeek-V3's experts."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, QK_NORM, SHARED, decoder_names, one_by_one
from anyformer.model import Architecture
from anyformer.parts import Attention, Gate, QKNorm, Renormalise, sandwich

_NAMES: Table = {
    "attention.gate.projection": "self_attn.gate_proj",
    "attention.norm_before": "input_layernorm",
    "attention.norm_after": "post_attention_layernorm",
    **{f"{mlp}.norm_before": "pre_mlp_layernorm" for mlp in ("feedforward", "experts")},
    **{f"{mlp}.norm_after": "post_mlp_layernorm" for mlp in ("feedforward", "experts")},
    "experts.router": "mlp.router.gate",
    "experts.router.correction": "mlp.expert_bias",
    **one_by_one("mlp.experts"),
}


def read(config: Config) -> Architecture:
    config.assume(sliding_window=1024)
    # Keys of published files that transformers does not read.
    config.expect_all(n_group=1, topk_group=1, num_expert_groups=1, num_limited_groups=1, route_norm=True, score_func="sigmoid")
    norm, rotary = words.rms_norm(config, 1e-5, cast="after_gain"), words.rotary(config)
    heads = words.attention(config, head_width=128, qk_norm=QKNorm(norm=norm), gate=Gate())
    router = words.sigmoid_router(config, renormalise=Renormalise(), key="route_scale")
    experts = words.experts(config, router, count=64, chosen=6, width=1408)
    experts = words.shared_of(config, experts, 2, "num_shared_experts")
    dense = words.feedforward(config, width=6144)

    def attention(kind: str, _: str) -> Attention:
        return heads.but(rotary=rotary, mask=words.mask(config, kind)) if kind == "local" else heads

    kinds = words.windows(config, words.every(config("global_attn_every_n_layers", 4)))
    networks = words.dense_first(config, "num_dense_layers", 1)
    layers = words.expert_layers(config, norm, attention, experts, dense, kinds, networks, wire=sandwich)
    return words.decoder(config, layers, norm, embedding_scale=words.root_scale(config, False, "mup_enabled"))


FAMILIES = (
    Family(
        "afmoe",
        read,
        decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, SHARED, _NAMES),
        "AfmoeForCausalLM",
        inert=("load_balance_coeff", "use_grouped_mm"),
    ),
)
