"""StableLM."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1,
    "max_position_embeddings": 64, "layer_norm_eps": 1e-3, "rope_theta": 300.0, "use_qkv_bias": True,
}  # fmt: skip

CASES = cases(
    "stablelm",
    BASE,
    {"qk_layernorm": True, "num_attention_heads": 4, "num_key_value_heads": 2, "partial_rotary_factor": 0.67},
    {
        "use_parallel_residual": True, "use_qkv_bias": False, "partial_rotary_factor": 0.75, "tie_word_embeddings": True,
        "hidden_act": "gelu", "num_key_value_heads": 3, "hidden_dropout": 0.1, "attention_dropout": 0.2,
    },
)  # fmt: skip
