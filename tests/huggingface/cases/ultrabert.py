"""UltraBERT."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "pad_token_id": 0, "sliding_window": 3, "prediction_head_size": 20,
}  # fmt: skip
OTHER = {
    "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "rms_norm_eps": 1e-3, "hidden_act": "gelu",
    "layer_types": ["full_attention", "sliding_attention", "full_attention"],
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 50.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
    },
}  # fmt: skip

CASES = [
    *cases("ultrabert", BASE, OTHER, task="MaskedLM"),
    *cases("ultrabert", BASE, task="Model"),
    *cases("ultrabert", BASE | {"num_labels": 5, "classifier_pooling": "mean"}, task="SequenceClassification"),
    *cases("ultrabert", BASE | {"num_labels": 3}, task="TokenClassification"),
]
