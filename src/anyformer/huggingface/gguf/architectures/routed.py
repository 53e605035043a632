"""Experts beside one that reads every token, chosen by sigmoids with corrections: GLM 4.5, dots.llm1, DeepSeek, LFM 2."""

from __future__ import annotations

from anyformer.huggingface.gguf.changes import Absorbed
from anyformer.huggingface.gguf.latent import LatentRotary, LatentWidths
from anyformer.huggingface.gguf.lines import (
    Always,
    ExpertWidth,
    GgufLine,
    Key,
    Only,
    Present,
    SameAs,
    Words,
    only,
)
from anyformer.huggingface.gguf.rotary import RotaryLine
from anyformer.huggingface.gguf.shared import NO_WINDOW, RMS, SILU, SIZES, WIDE, decoder
from anyformer.huggingface.gguf.spelling import GgufForm
from anyformer.huggingface.rules import Op

SOFTMAX, SIGMOID = 1, 2
"""Numbers of the functions of a router."""
CORRECTED = {"mlp.gate.e_score_correction_bias": "exp_probs_b.bias"}
ROUTED: tuple[GgufLine, ...] = (
    Key("n_routed_experts", "expert_count"),
    Key("num_experts_per_tok", "expert_used_count"),
    Key("n_shared_experts", "expert_shared_count"),
    Key("first_k_dense_replace", "leading_dense_block_count", int, 0),
    Key("routed_scaling_factor", "expert_weights_scale", float, 1.0),
    ExpertWidth(),
    Only("num_nextn_predict_layers", (0, None), said=False),
)
GROUPS: tuple[GgufLine, ...] = (
    Key("n_group", "expert_group_count", int, 1),
    Key("topk_group", "expert_group_used_count", int, 1),
    Key("norm_topk_prob", "expert_weights_norm", bool, False),
    Always("expert_gating_func", SIGMOID),
)


def _absorbed(table: Words) -> Op:
    return Absorbed(table["num_attention_heads"], table["qk_nope_head_dim"])


UNGROUPED: tuple[GgufLine, ...] = (Only("n_group", (1, None), said=False), Only("topk_group", (1, None), said=False))
LATENT: tuple[GgufLine, ...] = (
    *SIZES,
    WIDE,
    RMS,
    SILU,
    Key("num_attention_heads", "attention.head_count"),
    Always("attention.head_count_kv", 1),
    SameAs("num_key_value_heads", "num_attention_heads"),
    LatentWidths(),
    LatentRotary(),
    only("attention_bias", False),
)
KEYS = {"self_attn.kv_b_proj": ("attn_k_b", "attn_v_b")}

FORMS = (
    GgufForm(
        "glm4moe",
        "glm4_moe",
        decoder(
            RotaryLine(partial=True), SILU, Present("attention_bias", "attn_q.bias"),
            Present("use_qk_norm", "attn_q_norm.weight"), *ROUTED, *GROUPS,
        ),
        names=CORRECTED,
    ),
    GgufForm(
        "dots1",
        "dots1",
        decoder(RotaryLine(), SILU, only("attention_bias", False), *NO_WINDOW, *ROUTED, *GROUPS,
                SameAs("num_key_value_heads", "num_attention_heads")),
        names=CORRECTED,
    ),
    GgufForm(
        "deepseek2",
        "deepseek_v3",
        (
            *LATENT, *ROUTED, *GROUPS, only("rope_interleave", True), Only("scoring_func", ("sigmoid",), said=False),
            Only("topk_method", ("noaux_tc",), said=False),
        ),
        names={**KEYS, **CORRECTED},
        changes={"attn_k_b": _absorbed},
        when=lambda keys: keys("expert_gating_func", SOFTMAX) == SIGMOID,
    ),
    GgufForm(
        "deepseek2",
        "deepseek_v2",
        (*LATENT, *ROUTED, *UNGROUPED, Always("expert_gating_func", SOFTMAX), only("topk_method", "greedy")),
        names=KEYS,
        changes={"attn_k_b": _absorbed},
        when=lambda keys: keys("expert_gating_func", SOFTMAX) == SOFTMAX,
    ),
)  # fmt: skip
