"""BioGPT."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 20,
    "max_position_embeddings": 16, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.2,
    "activation_dropout": 0.3, "layer_norm_eps": 1e-2,
}  # fmt: skip

CASES = cases("biogpt", BASE, {"scale_embedding": False, "hidden_act": "relu", "tie_word_embeddings": False})
