"""StarCoder 2."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "norm_epsilon": 1e-3, "sliding_window": 5, "rope_theta": 300.0,
}  # fmt: skip

CASES = cases(
    "starcoder2",
    BASE,
    {
        "use_bias": False, "sliding_window": None, "tie_word_embeddings": False, "hidden_act": "gelu", "head_dim": 6,
        "residual_dropout": 0.1, "embedding_dropout": 0.2, "attention_dropout": 0.3,
    },
)  # fmt: skip
