"""MiMo-V2-Flash."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 20, "num_attention_heads": 4, "moe_intermediate_size": 12,
    "max_position_embeddings": 64,
}  # fmt: skip

CASES = [
    Case(
        "mimo_v2_flash",
        BASE | {
            "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 12, "v_head_dim": 6, "n_routed_experts": 8,
            "n_group": 4, "topk_group": 2, "num_experts_per_tok": 3, "sliding_window": 5, "attention_value_scale": 0.6,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
            "mlp_layer_types": ["dense", "sparse", "dense", "sparse"], "routed_scaling_factor": 1.5, "rms_norm_eps": 1e-3,
            "attention_bias": True,
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0, "partial_rotary_factor": 0.334},
            },
        },
        name="narrow",
    ),
    Case(
        "mimo_v2_flash",
        BASE | {
            "num_hidden_layers": 2, "num_key_value_heads": 1, "head_dim": 6, "v_head_dim": 8, "n_routed_experts": 4,
            "num_experts_per_tok": 2, "norm_topk_prob": False, "tie_word_embeddings": True, "hidden_act": "gelu",
            "sliding_window": 4, "mlp_layer_types": ["sparse", "sparse"], "routed_scaling_factor": None,
        },
        name="wide",
    ),
]  # fmt: skip
