"""JetMoE: experts of attention and of networks, with a bias beside all."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_key_value_heads": 2, "kv_channels": 8, "intermediate_size": 20,
    "num_local_experts": 4, "num_experts_per_tok": 2, "max_position_embeddings": 64,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16}

CASES = cases(
    "jetmoe",
    BASE,
    {
        "num_key_value_heads": 3, "num_local_experts": 5, "num_experts_per_tok": 3, "activation_function": "gelu",
        "rms_norm_eps": 1e-3, "tie_word_embeddings": False, "rope_parameters": YARN,
    },
)  # fmt: skip
