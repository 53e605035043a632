"""Command R and R7B."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "layer_norm_eps": 1e-3, "logit_scale": 0.3, "pad_token_id": 1,
    "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
}  # fmt: skip
LINEAR = {"rope_type": "linear", "factor": 3.0, "rope_theta": 90.0}
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 8, "attention_factor": 1.3}
TYPES = ["sliding_attention", "full_attention", "sliding_attention"]

CASES = [
    *cases("cohere", BASE,
           {"use_qk_norm": True, "attention_bias": True, "tie_word_embeddings": False, "head_dim": 6, "hidden_act": "gelu",
            "rope_parameters": LINEAR},
           {"rope_parameters": None, "num_key_value_heads": None}),
    *cases("cohere2", BASE | {"sliding_window": 4, "sliding_window_pattern": 3},
           {"layer_types": TYPES, "attention_bias": True, "tie_word_embeddings": False, "head_dim": 6, "hidden_act": "gelu",
            "rope_parameters": YARN},
           {"layer_types": ["full_attention"] * 3}),
    *cases("cohere_compass_text", BASE | {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 300.0}}},
           {"layer_types": TYPES, "sliding_window": 4, "attention_bias": True, "tie_word_embeddings": False,
            "hidden_act": "gelu", "rope_parameters": {"sliding_attention": LINEAR, "full_attention": None}},
           {"layer_types": TYPES, "sliding_window": 4, "logit_scale": None,
            "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 90.0}, "full_attention": YARN}}),
]  # fmt: skip
