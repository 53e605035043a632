"""Qwen 2 and 3 MoE."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 20, "num_attention_heads": 4, "moe_intermediate_size": 12,
    "max_position_embeddings": 64, "num_experts": 5,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16}

CASES = [
    Case(
        "qwen2_moe",
        BASE | {
            "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 6, "num_experts_per_tok": 3, "norm_topk_prob": True,
            "shared_expert_intermediate_size": 10, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2,
            "mlp_only_layers": [2], "rope_parameters": YARN, "rms_norm_eps": 1e-3,
        },
        name="windows",
    ),
    Case(
        "qwen2_moe",
        BASE | {
            "num_hidden_layers": 2, "num_key_value_heads": 4, "num_experts_per_tok": 2, "norm_topk_prob": False,
            "shared_expert_intermediate_size": 16, "qkv_bias": False, "hidden_act": "gelu", "tie_word_embeddings": True,
        },
        name="tied",
    ),
    Case(
        "qwen3_moe",
        BASE | {
            "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 6, "num_experts_per_tok": 2, "norm_topk_prob": True,
            "decoder_sparse_step": 2, "attention_bias": True, "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 50.0},
        },
        name="alternating",
    ),
    Case(
        "qwen3_moe",
        BASE | {
            "num_hidden_layers": 3, "num_key_value_heads": 1, "num_experts_per_tok": 3, "mlp_only_layers": [0],
            "use_sliding_window": True, "sliding_window": 4, "hidden_act": "gelu", "rope_parameters": YARN,
        },
        name="window",
    ),
]  # fmt: skip
