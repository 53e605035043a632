"""Cohere 2 MoE."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 12, "num_attention_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip

CASES = [
    Case(
        "cohere2_moe",
        BASE | {
            "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 6, "num_experts": 5, "num_experts_per_tok": 3,
            "num_shared_experts": 2, "expert_selection_fn": "sigmoid", "sliding_window": 5, "first_k_dense_replace": 1,
            "sliding_window_pattern": 3, "prefix_dense_intermediate_size": 20, "logit_scale": 0.5, "attention_bias": True,
            "layer_norm_eps": 1e-3, "rope_theta": 300.0,
        },
        name="averaged",
    ),
    Case(
        "cohere2_moe",
        BASE | {
            "num_hidden_layers": 3, "num_key_value_heads": 1, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2,
            "num_shared_experts": 1, "shared_expert_combination_strategy": "sum", "rms_norm_eps": 1e-3, "sliding_window": 4,
            "layer_types": ["full_attention", "sliding_attention", "full_attention"], "logit_scale": 2.0,
            "mlp_layer_types": ["dense", "sparse", "sparse"], "prefix_dense_sliding_window_pattern": 2,
            "prefix_dense_intermediate_size": 16, "tie_word_embeddings": False, "hidden_act": "gelu",
            "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
        },
        name="summed",
    ),
    Case(
        "cohere2_moe",
        BASE | {
            "num_hidden_layers": 2, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4,
            "expert_selection_fn": "sigmoid", "norm_topk_prob": False,
        },
        name="plain_sigmoid",
    ),
]  # fmt: skip
