"""CTRL."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 16, "dff": 20, "embd_pdrop": 0.2, "resid_pdrop": 0.3,
    "layer_norm_epsilon": 1e-2,
}  # fmt: skip

CASES = cases("ctrl", BASE, {"tie_word_embeddings": False})
