"""MiniMax-M2: norms of whole projections, rotary positions of half a head, DeepSeek-V3's choice of experts without groups."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import ATTENTION, NORMS, NUMBERED, QK_NORM, decoder_names
from anyformer.model import Architecture
from anyformer.parts import QKNorm, Router, ScoreCorrectionBias, TopK, pre_norm

_CORRECTION = {"experts.router.correction": "block_sparse_moe.e_score_correction_bias"}


def read(config: Config) -> Architecture:
    # Keys of published files that transformers does not read.
    config.expect_all(
        use_qk_norm=True, qk_norm_type="per_layer", use_routing_bias=True, scoring_func="sigmoid", shared_intermediate_size=0,
        layernorm_full_attention_beta=1.0, layernorm_linear_attention_beta=1.0, layernorm_mlp_beta=1.0,
    )  # fmt: skip
    config.expect("attn_type_list", None, [1] * config("num_hidden_layers"))
    config.expect("router_jitter_noise", 0.0, 0, why="its noise reaches the experts too")
    norm, rotated, width = words.rms_norm(config), config("rotary_dim", None), config("head_dim", 128, kind=SIZE)
    rotary = words.rotary(config, fraction=1.0 if rotated is None else rotated / width, theta=5e6)
    heads = words.attention(
        config, kv_heads=8, head_width=128, bias=(), qk_norm=QKNorm(norm=norm, over="projection"), rotary=rotary
    )
    router = Router(score="sigmoid", choice=TopK(correction=ScoreCorrectionBias()), renormalise=words.EXACT)
    counted = ("num_local_experts", "num_experts")
    experts = words.experts(config, router, count=256, chosen=8, width=1536, counted=counted, size="intermediate_size")
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, experts)), norm)


FAMILIES = (
    Family(
        "minimax_m2",
        read,
        decoder_names(ATTENTION, QK_NORM, NUMBERED, _CORRECTION, NORMS),
        "MiniMaxM2ForCausalLM",
        inert=(
            "max_model_len", "mlp_intermediate_size", "mtp_transformer_layers", "num_mtp_modules", "shared_moe_mode", "use_mtp",
        ),
    ),
)  # fmt: skip
