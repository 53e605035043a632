"""Granite MoE with and without a shared expert, and with windows."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, "num_local_experts": 5, "num_experts_per_tok": 3, "embedding_multiplier": 3.0,
    "attention_multiplier": 0.3, "residual_multiplier": 0.7, "logits_scaling": 6.0,
}  # fmt: skip
TIED = BASE | {"num_key_value_heads": 2, "attention_bias": True, "tie_word_embeddings": True, "head_dim": 6}
UNTIED = BASE | {
    "num_key_value_heads": 1, "hidden_act": "gelu", "rms_norm_eps": 1e-3,
    "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
}  # fmt: skip

CASES = [
    Case("granitemoe", TIED, name="tied"),
    Case("granitemoe", UNTIED, name="untied"),
    Case("granitemoeshared", TIED | {"shared_intermediate_size": 10}, name="tied"),
    Case("granitemoeshared", UNTIED | {"shared_intermediate_size": 0}, name="none"),
    Case("granitemoe_swa", TIED | {"sliding_window": 5, "num_hidden_layers": 3}, name="absent"),
    Case(
        "granitemoe_swa",
        UNTIED
        | {
            "sliding_window": 3, "shared_intermediate_size": 10, "layer_rope_theta": [50.0, 0, 300.5],
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "num_hidden_layers": 3,
        },
        name="bases",
    ),
]  # fmt: skip
