"""GPT of 2018."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 16, "attn_pdrop": 0.1, "embd_pdrop": 0.2, "resid_pdrop": 0.3,
    "layer_norm_epsilon": 1e-2,
}  # fmt: skip

CASES = cases("openai-gpt", BASE, {"afn": "silu", "tie_word_embeddings": False})
