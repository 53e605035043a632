"""GPT-2."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 16, "attn_pdrop": 0.1, "embd_pdrop": 0.2, "resid_pdrop": 0.3,
    "layer_norm_epsilon": 1e-2,
}  # fmt: skip

CASES = cases(
    "gpt2",
    BASE,
    {"n_inner": 20, "activation_function": "relu", "scale_attn_by_inverse_layer_idx": True, "tie_word_embeddings": False},
    {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True},
)
