"""Qwen3-Next and Qwen3.5: fused projections by key head and apart, gates, partial rotation, experts and none."""

from __future__ import annotations

from huggingface.case import cases

MIXERS = {
    "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "linear_num_value_heads": 6, "linear_num_key_heads": 2, "linear_key_head_dim": 6, "linear_value_head_dim": 5,
    "linear_conv_kernel_dim": 3, "max_position_embeddings": 64, "rms_norm_eps": 1e-3,
}  # fmt: skip
EXPERTS = {
    "moe_intermediate_size": 12, "shared_expert_intermediate_size": 10, "num_experts": 6, "num_experts_per_tok": 2,
}  # fmt: skip
INDEXED = {
    "indexer_n_heads": 8, "indexer_kv_heads": 1, "indexer_head_dim": 12, "indexer_budget": 4, "indexer_compress_ratio": 2,
    "hc_count": 3, "hc_lowrank": 7,
}  # fmt: skip
HALF = {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}
STRETCHED = {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0, "partial_rotary_factor": 0.75}
ORDER = ["full_attention", "linear_attention", "full_attention", "linear_attention"]
DENSE = MIXERS | {"intermediate_size": 40}

CASES = [
    *cases(
        "qwen3_next",
        DENSE | EXPERTS | {"mlp_only_layers": [1], "rope_parameters": HALF},
        {"layer_types": ORDER, "norm_topk_prob": False, "attention_bias": True, "hidden_act": "gelu", "decoder_sparse_step": 2,
         "mlp_only_layers": None, "tie_word_embeddings": True},
    ),
    *cases("qwen3_5_moe_text", MIXERS | EXPERTS | {"layer_types": ORDER[:2], "num_hidden_layers": 2}),
    *cases(
        "qwen4_exp_text",
        MIXERS | EXPERTS | INDEXED | {"layer_types": ["indexed_attention", "linear_attention"], "num_hidden_layers": 2},
        {"layer_types": ["linear_attention", "full_attention"], "hidden_act": "gelu", "output_gate_type": "sigmoid",
         "norm_topk_prob": False, "rope_parameters": STRETCHED, "tie_word_embeddings": True, "indexer_budget": 3,
         "indexer_compress_ratio": 3, "attention_bias": True},
    ),
    *cases(
        "qwen3_5_text",
        DENSE | {"rope_parameters": HALF | {"mrope_section": [1, 1, 0], "mrope_interleaved": True}},
        {"layer_types": ORDER, "attention_bias": True, "rope_parameters": STRETCHED, "hidden_act": "gelu"},
    ),
]  # fmt: skip
