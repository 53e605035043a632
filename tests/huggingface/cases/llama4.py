"""Llama 4's text model."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 12, "intermediate_size_mlp": 20, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip

CASES = [
    Case(
        "llama4_text",
        BASE | {
            "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 6, "num_local_experts": 5, "num_experts_per_tok": 1,
            "attention_chunk_size": 5, "interleave_moe_layer_step": 2, "no_rope_layer_interval": 3, "floor_scale": 4,
            "attn_scale": 0.7, "rms_norm_eps": 1e-3, "attention_bias": True, "rope_parameters": LLAMA3,
        },
        name="tuned",
        unpadded="transformers counts the queries' temperature from the first slot, padding included",
    ),
    Case(
        "llama4_text",
        BASE | {
            "num_hidden_layers": 3, "num_key_value_heads": 1, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2,
            "attention_chunk_size": 4, "moe_layers": [0, 2], "no_rope_layers": [0, 1, 1], "use_qk_norm": False,
            "layer_types": ["full_attention", "chunked_attention", "full_attention"], "attn_temperature_tuning": False,
            "tie_word_embeddings": True, "hidden_act": "gelu",
        },
        name="tied",
    ),
]  # fmt: skip
