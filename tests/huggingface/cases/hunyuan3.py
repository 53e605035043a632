"""Hunyuan 3."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 20, "num_attention_heads": 4, "moe_intermediate_size": 12,
    "max_position_embeddings": 64,
}  # fmt: skip

CASES = [
    Case(
        "hy_v3",
        BASE | {
            "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 6, "num_experts": 5, "num_experts_per_tok": 3,
            "num_shared_experts": 2, "attention_bias": True, "mlp_bias": True, "router_scaling_factor": 1.5,
            "rms_norm_eps": 1e-3, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
        },
        name="biases",
    ),
    Case(
        "hy_v3",
        BASE | {
            "num_hidden_layers": 2, "num_key_value_heads": 1, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2,
            "mlp_layer_types": ["sparse", "sparse"], "tie_word_embeddings": True, "hidden_act": "gelu",
            "enable_moe_fp32_combine": False,
        },
        name="tied",
    ),
]  # fmt: skip
