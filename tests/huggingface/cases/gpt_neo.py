"""GPT-Neo, with windows shorter than the text."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "num_layers": 3, "num_heads": 4, "attention_types": [[["global", "local", "local"], 1]],
    "window_size": 5, "max_position_embeddings": 16, "layer_norm_epsilon": 1e-2, "attention_dropout": 0.1,
    "embed_dropout": 0.2, "resid_dropout": 0.3,
}  # fmt: skip

CASES = cases(
    "gpt_neo",
    BASE,
    {
        "attention_types": [[["global"], 3]],
        "intermediate_size": 20,
        "activation_function": "relu",
        "tie_word_embeddings": False,
    },
)
