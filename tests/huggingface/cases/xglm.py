"""XGLM."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "d_model": 24, "num_layers": 2, "attention_heads": 4, "ffn_dim": 20, "max_position_embeddings": 8, "dropout": 0.1,
    "attention_dropout": 0.2, "activation_dropout": 0.3,
}  # fmt: skip

CASES = cases("xglm", BASE, {"scale_embedding": False, "activation_function": "relu", "tie_word_embeddings": False})
