"""MiniCPM 3 and Youtu: latent attention without experts; factors of embedding, branches and logits."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
    "q_lora_rank": 9, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 7,
    "max_position_embeddings": 64,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16, "mscale_all_dim": 0.7}
LONG = {
    "rope_type": "longrope", "rope_theta": 100.0, "short_factor": [1.0, 1.3], "long_factor": [1.0, 4.0],
    "original_max_position_embeddings": 32, "factor": 2.0,
}  # fmt: skip

CASES = [
    *cases("youtu", BASE, {"q_lora_rank": None, "attention_bias": True, "rope_interleave": False, "rope_parameters": YARN}),
    *cases(
        "minicpm3",
        BASE | {"scale_emb": 7, "scale_depth": 1.9, "dim_model_base": 20, "v_head_dim": None},
        {"q_lora_rank": None, "mlp_bias": True, "attention_bias": True, "scale_depth": None, "dim_model_base": None,
         "tie_word_embeddings": False, "hidden_act": "gelu"},
    ),
]  # fmt: skip
