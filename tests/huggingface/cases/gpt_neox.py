"""GPT-NeoX and its Japanese sibling."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 64,
    "eos_token_id": 2, "attention_dropout": 0.1, "hidden_dropout": 0.2, "layer_norm_eps": 1e-2,
}  # fmt: skip
ROPE = {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0, "partial_rotary_factor": 0.5}
YARN = {
    "rope_type": "yarn", "factor": 4.0, "rope_theta": 50.0, "partial_rotary_factor": 1.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip

CASES = [
    *cases(
        "gpt_neox",
        BASE | {"intermediate_size": 40},
        {"use_parallel_residual": False, "attention_bias": False, "rope_parameters": ROPE, "tie_word_embeddings": True},
        {"hidden_act": "relu", "rope_parameters": YARN},
    ),
    *cases(
        "gpt_neox_japanese",
        BASE | {"intermediate_multiple_size": 2},
        {"hidden_act": "relu", "rope_parameters": ROPE, "tie_word_embeddings": False},
    ),
]
