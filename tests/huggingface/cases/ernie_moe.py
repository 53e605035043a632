"""ERNIE 4.5 MoE."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 20, "num_attention_heads": 4, "moe_intermediate_size": 12,
    "max_position_embeddings": 64,
}  # fmt: skip

CASES = [
    Case(
        "ernie4_5_moe",
        BASE | {
            "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 6, "moe_num_experts": 5, "moe_k": 3,
            "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": 3, "moe_layer_interval": 2,
            "moe_norm_min": 0.7, "use_bias": True, "tie_word_embeddings": False, "rms_norm_eps": 1e-3,
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
        },
        name="biases",
    ),
    Case(
        "ernie4_5_moe",
        BASE | {
            "num_hidden_layers": 3, "num_key_value_heads": 1, "moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 0,
            "hidden_act": "gelu", "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
        },
        name="tied",
    ),
]  # fmt: skip
