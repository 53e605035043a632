"""BLOOM, with a number of heads that is no power of two."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "n_layer": 2, "n_head": 6, "layer_norm_epsilon": 1e-2, "attention_dropout": 0.1, "hidden_dropout": 0.2,
}  # fmt: skip

CASES = cases("bloom", BASE, {"apply_residual_connection_post_layernorm": True, "tie_word_embeddings": False, "n_head": 4})
