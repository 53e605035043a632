"""GLM-4."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "rope_theta": 300.0, "pad_token_id": 0,
}  # fmt: skip
VARIANT = {
    "head_dim": 12, "attention_bias": False, "tie_word_embeddings": True, "hidden_act": "gelu", "attention_dropout": 0.3,
    "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0, "partial_rotary_factor": 0.67},
}  # fmt: skip

CASES = [case for kind in ("glm", "glm4") for case in cases(kind, BASE | {"head_dim": 8}, VARIANT)]
