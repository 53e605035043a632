"""Laguna."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 20, "num_attention_heads": 4, "moe_intermediate_size": 12,
    "max_position_embeddings": 64,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16}

CASES = [
    Case(
        "laguna",
        BASE | {
            "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 8, "num_experts": 5, "num_experts_per_tok": 3,
            "num_attention_heads_per_layer": [4, 6, 6, 4], "sliding_window": 5,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
            "mlp_layer_types": ["dense", "sparse", "dense", "sparse"], "shared_expert_intermediate_size": 8,
            "moe_routed_scaling_factor": 1.5, "moe_router_logit_softcapping": 0.7, "rms_norm_eps": 1e-3,
            "attention_bias": True,
            "rope_parameters": {
                "full_attention": YARN | {"partial_rotary_factor": 0.5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0, "partial_rotary_factor": 0.75},
            },
        },
        name="by_head",
    ),
    Case(
        "laguna",
        BASE | {
            "num_hidden_layers": 2, "num_key_value_heads": 1, "head_dim": 12, "num_experts": 4, "num_experts_per_tok": 2,
            "shared_expert_intermediate_size": 12, "gating": "per-element", "tie_word_embeddings": True, "hidden_act": "gelu",
        },
        name="by_element",
    ),
]  # fmt: skip
