"""Hunyuan A13B."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 12, "num_attention_heads": 4, "max_position_embeddings": 64,
    "num_experts": 5,
}  # fmt: skip

CASES = [
    Case(
        "hunyuan_v1_moe",
        BASE | {
            "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 6, "moe_topk": [3, 1, 3], "attention_bias": True,
            "rms_norm_eps": 1e-3, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 50.0, "alpha": 4.0, "factor": 1.0},
        },
        name="alpha",
    ),
    Case(
        "hunyuan_v1_moe",
        BASE | {
            "num_hidden_layers": 2, "head_dim": 8, "moe_topk": 2, "hidden_act": "gelu", "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
        },
        name="tied",
    ),
]  # fmt: skip
