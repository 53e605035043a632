"""Falcon: the shapes of 7B, 40B, 11B and RW; ALiBi with slopes that need rounding."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64,
    "layer_norm_epsilon": 1e-2, "ffn_hidden_size": 40, "attention_dropout": 0.1,
}  # fmt: skip
ROPE = {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0}

CASES = cases(
    "falcon",
    BASE,
    {"new_decoder_architecture": True, "num_kv_heads": 2, "bias": True, "tie_word_embeddings": False, "rope_parameters": ROPE},
    {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1, "activation": "relu"},
    {
        "alibi": True, "parallel_attn": False, "multi_query": False, "bias": True, "num_attention_heads": 16,
        "hidden_dropout": 0.2,
    },
)  # fmt: skip
