"""SmolLM 3."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip

LINEAR = {"rope_type": "linear", "factor": 3.0, "rope_theta": 90.0}
WINDOWS = {"use_sliding_window": True, "sliding_window": 4, "no_rope_layers": [0, 1, 0, 1]}
TYPES = ["sliding_attention", "sliding_attention", "full_attention", "full_attention"]

CASES = cases(
    "smollm3",
    BASE | {"no_rope_layer_interval": 3, "head_dim": 6, "mlp_bias": True, "sliding_window": 3},
    WINDOWS | {"attention_bias": True, "tie_word_embeddings": False, "hidden_act": "gelu", "rope_parameters": LINEAR},
    WINDOWS | {"layer_types": TYPES},
)
