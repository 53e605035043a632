"""Phi-3.5 MoE."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 100.0, "short_factor": [1.0, 1.1, 1.3, 2.0], "long_factor": [1.0, 2.0, 3.0, 4.0],
    "original_max_position_embeddings": 16, "short_mscale": 1.2, "long_mscale": 1.2,
}  # fmt: skip

CASES = [
    Case(
        "phimoe",
        BASE | {
            "num_key_value_heads": 2, "head_dim": 6, "num_local_experts": 5, "router_jitter_noise": 0.4, "lm_head_bias": True,
            "attention_bias": True, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}, "rms_norm_eps": 1e-3,
        },
        name="biases",
    ),
    Case(
        "phimoe",
        BASE | {
            "num_key_value_heads": 4, "num_local_experts": 8, "router_jitter_noise": 0.2, "tie_word_embeddings": True,
            "hidden_act": "gelu", "sliding_window": 5, "rope_parameters": LONGROPE,
        },
        name="window",
    ),
]  # fmt: skip
