"""Model types that llama.cpp is asked about, at tiny sizes with every setting that its graphs compute off its usual value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VOCABULARY = 97
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 2}
HEADS = {**GROUPED, "head_dim": 16}
TURNED = {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16}
LINEAR = {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0}
EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24}

TYPES: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "llama": (
        {**HEADS, **TURNED, "rms_norm_eps": 1e-3},
        {**GROUPED, "rope_parameters": LLAMA3, "attention_bias": False, "tie_word_embeddings": True},
        {**GROUPED, "rope_parameters": YARN},
        {**GROUPED, "rope_parameters": LINEAR},
    ),
    "mistral": ({**HEADS, **TURNED, "sliding_window": None}, {**HEADS, "sliding_window": 64}),
    "mixtral": ({**HEADS, **TURNED, "num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": None},),
    "qwen2": ({**GROUPED, **TURNED}, {**GROUPED, "rope_parameters": YARN, "tie_word_embeddings": True}),
    "qwen3": ({**HEADS, **TURNED},),
    "qwen2_moe": ({**GROUPED, **TURNED, **EXPERTS, "shared_expert_intermediate_size": 40},),
    "qwen3_moe": ({**HEADS, **TURNED, **EXPERTS, "norm_topk_prob": True},),
    "gemma": ({**HEADS, **TURNED},),
    "gemma2": (
        {**HEADS, **TURNED, "query_pre_attn_scalar": 16, "sliding_window": 5, "attn_logit_softcapping": 7.0,
         "final_logit_softcapping": 9.0},
    ),
    "gemma3_text": (
        {**HEADS, "num_hidden_layers": 7, "query_pre_attn_scalar": 16, "sliding_window": 5,
         "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
                             "full_attention": {"rope_type": "linear", "rope_theta": 900.0, "factor": 3.0}}},
        {**HEADS, "query_pre_attn_scalar": 16, "sliding_window": 5,
         "layer_types": ["full_attention", "sliding_attention", "full_attention"]},
    ),
    "gpt2": ({"vocab_size": VOCABULARY, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 64, "n_inner": 100},),
    "phi3": (
        {**GROUPED, **TURNED, "pad_token_id": 0},
        {**GROUPED, "pad_token_id": 0, "sliding_window": 64, "original_max_position_embeddings": 16,
         "rope_parameters": {"rope_type": "longrope", "rope_theta": 100.0, "short_factor": [1.0, 1.1, 1.2, 1.3, 1.5, 2.0],
                             "long_factor": [1.0, 2.0, 3.0, 4.0, 4.5, 5.0], "original_max_position_embeddings": 16}},
    ),
    "phi": ({**SIZES, "num_key_value_heads": 2, "partial_rotary_factor": 0.5},),
}  # fmt: skip
