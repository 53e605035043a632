"""HRM-Text: cycles of both stacks, of which more or fewer learn, with a prefix or without."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 10,
    "rms_norm_eps": 1e-3, "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}, "H_cycles": 2, "L_cycles": 3,
}  # fmt: skip

CASES = [
    *cases(
        "hrm_text",
        BASE,
        {"embedding_scale": 3.0, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "hidden_act": "gelu"},
        {"L_bp_cycles": [1, 3], "prefix_lm": False, "attention_dropout": 0.1, "num_hidden_layers": 1},
        {"L_bp_cycles": [4, 1, 2], "H_cycles": 3, "L_cycles": 2, "initializer_range": 0.05},
        {"L_bp_cycles": [0, 3], "embedding_scale": 2.0},
        {"L_bp_cycles": [0, 1, 0], "H_cycles": 3, "L_cycles": 2, "num_hidden_layers": 1},
        {"L_bp_cycles": [], "H_cycles": 1, "L_cycles": 1, "max_position_embeddings": 64},
    ),
]
