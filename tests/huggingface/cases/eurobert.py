"""EuroBERT."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "mask_token_id": 3,
}  # fmt: skip
OTHER = {
    "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "head_dim": 6, "rms_norm_eps": 1e-3,
    "hidden_act": "gelu", "attention_dropout": 0.1, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0},
}  # fmt: skip

CASES = [*cases("eurobert", BASE, OTHER, task="MaskedLM"), *cases("eurobert", BASE, task="Model")]
