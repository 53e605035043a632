"""RecurrentGemma: RG-LRU layers and local attention, in other periods, widths and windows."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 80, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-3, "attention_window_size": 5, "logits_soft_cap": 3.0,
}  # fmt: skip

CASES = cases(
    "recurrent_gemma",
    BASE,
    {"block_types": ["attention", "recurrent"], "num_hidden_layers": 3, "lru_width": 24, "conv1d_width": 3,
     "num_key_value_heads": 1, "attention_bias": True, "hidden_activation": "silu", "tie_word_embeddings": False,
     "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.25}},
    unpadded="transformers does not mask padding before the convolution",
)  # fmt: skip
