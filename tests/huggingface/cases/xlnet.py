"""XLNet, both ways and causal."""

from __future__ import annotations

from huggingface.case import cases

BASE = {"d_model": 24, "n_layer": 2, "n_head": 4, "d_inner": 20, "dropout": 0.1, "layer_norm_eps": 1e-2}

CASES = [
    *cases("xlnet", BASE, {"ff_activation": "relu", "tie_word_embeddings": False}),
    *cases("xlnet", BASE | {"attn_type": "uni"}, unpadded="transformers fails: its causal mask has no rows to add padding to"),
]
