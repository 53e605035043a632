"""GPT-BigCode, with one head of keys and values and with as many as queries."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 16, "attn_pdrop": 0.1, "embd_pdrop": 0.2, "resid_pdrop": 0.3,
    "layer_norm_epsilon": 1e-2, "n_inner": 20,
}  # fmt: skip

CASES = cases(
    "gpt_bigcode",
    BASE,
    {"multi_query": False, "activation_function": "gelu", "scale_attn_weights": False, "tie_word_embeddings": False},
)
