"""OLMo 1, 2 and 3."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "pad_token_id": None, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
}  # fmt: skip
LINEAR = {"rope_type": "linear", "factor": 3.0, "rope_theta": 90.0}
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 8, "attention_factor": 1.3}
BY_TYPE = {"full_attention": YARN, "sliding_attention": {"rope_type": "default", "rope_theta": 30.0}}

CASES = [
    *cases("olmo", BASE, {"clip_qkv": 0.4, "attention_bias": True, "tie_word_embeddings": True, "hidden_act": "gelu",
                          "num_key_value_heads": None, "head_dim": 6, "rope_parameters": LINEAR}),
    *cases("olmo2", BASE | {"rms_norm_eps": 1e-3},
           {"attention_bias": True, "tie_word_embeddings": True, "num_key_value_heads": 1, "head_dim": 6,
            "rope_parameters": YARN | {"truncate": False}}),
    *cases("olmo3", BASE | {"num_hidden_layers": 4, "sliding_window": 4, "rope_parameters": BY_TYPE, "attention_bias": True},
           {"layer_types": ["full_attention", "sliding_attention"] * 2, "rope_parameters": None, "rms_norm_eps": 1e-3,
            "tie_word_embeddings": True},
           {"layer_types": ["full_attention"] * 4}),
]  # fmt: skip
