"""Kolibri 1 and Flint."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "num_attention_heads": 4, "moe_intermediate_size": 12,
    "max_position_embeddings": 64,
}  # fmt: skip
WINDOWS = BASE | {
    "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 6, "num_experts": 5, "num_experts_per_tok": 3,
    "shared_expert_intermediate_size": 8, "norm_topk_prob": True, "sliding_window": 5, "rms_norm_eps": 1e-3,
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
    "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
}  # fmt: skip
TIED = BASE | {
    "num_key_value_heads": 1, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": False,
    "shared_expert_intermediate_size": 12, "tie_word_embeddings": True, "hidden_act": "gelu",
}  # fmt: skip

CASES = [
    Case("kolibri1", WINDOWS, name="windows"),
    Case(
        "kolibri1",
        TIED | {"num_hidden_layers": 2, "sliding_window": 4},
        name="tied",
    ),
    Case("flint", WINDOWS | {"intermediate_size": 20, "attention_bias": True, "mlp_only_layers": [2]}, name="windows"),
    Case(
        "flint",
        TIED | {"num_hidden_layers": 4, "intermediate_size": 16, "sliding_window": 4, "decoder_sparse_step": 2},
        name="tied",
    ),
]
