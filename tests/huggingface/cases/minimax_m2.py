"""MiniMax-M2."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 12, "num_attention_heads": 4, "num_hidden_layers": 2,
    "max_position_embeddings": 64,
}  # fmt: skip

CASES = [
    Case(
        "minimax_m2",
        BASE | {
            "num_key_value_heads": 2, "head_dim": 12, "num_local_experts": 5, "num_experts_per_tok": 3, "rotary_dim": 6,
            "rms_norm_eps": 1e-3, "rope_theta": 300.0,
        },
        name="rotary_dim",
    ),
    Case(
        "minimax_m2",
        BASE | {
            "num_key_value_heads": 1, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 1, "hidden_act": "gelu",
            "tie_word_embeddings": True, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
        },
        name="tied",
    ),
]  # fmt: skip
