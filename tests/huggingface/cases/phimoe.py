"""Phi-3.5 MoE."""

from __future__ import annotations

from huggingface.parity import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64,
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
            "hidden_act": "gelu", "sliding_window": 5,
        },
        name="window",
    ),
]  # fmt: skip
