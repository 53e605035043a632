"""AFMoE."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 20, "num_attention_heads": 4, "moe_intermediate_size": 12,
    "max_position_embeddings": 64,
}  # fmt: skip

CASES = [
    Case(
        "afmoe",
        BASE | {
            "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 6, "num_experts": 5, "num_experts_per_tok": 3,
            "num_shared_experts": 2, "sliding_window": 5, "global_attn_every_n_layers": 3, "num_dense_layers": 2,
            "route_scale": 1.5, "mup_enabled": True, "rms_norm_eps": 1e-3, "attention_bias": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
        },
        name="mup",
    ),
    Case(
        "afmoe",
        BASE | {
            "num_hidden_layers": 3, "num_key_value_heads": 1, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 1,
            "num_shared_experts": 1, "sliding_window": 4, "tie_word_embeddings": True, "hidden_act": "gelu",
            "num_dense_layers": 0, "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
        },
        name="tied",
    ),
]  # fmt: skip
