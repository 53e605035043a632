"""ESM C."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip
OTHER = {
    "attention_bias": True, "mlp_bias": True, "hidden_act": "gelu", "attention_dropout": 0.1,
    "rope_parameters": {"rope_type": "default", "rope_theta": 50.0},
}  # fmt: skip

CASES = [
    *cases("esmc", BASE, OTHER, task="MaskedLM"),
    *cases("esmc", BASE, task="Model"),
    *cases("esmc", BASE | {"num_labels": 5}, task="SequenceClassification"),
    *cases("esmc", BASE | {"num_labels": 3}, task="TokenClassification"),
]
