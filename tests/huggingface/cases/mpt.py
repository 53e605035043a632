"""MPT, with a number of heads that is no power of two."""

from __future__ import annotations

from huggingface.case import cases

BASE = {"d_model": 24, "n_layers": 2, "n_heads": 6, "max_seq_len": 16, "layer_norm_epsilon": 1e-2}

CASES = cases("mpt", BASE, {"attn_config": {"clip_qkv": 0.5, "softmax_scale": 0.3}, "tie_word_embeddings": False, "n_heads": 4})
