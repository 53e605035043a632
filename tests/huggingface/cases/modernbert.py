"""ModernBERT and its decoder: windows shorter than the text, biases, kinds of layers in any order."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4, "max_position_embeddings": 64,
    "local_attention": 6, "norm_eps": 1e-3, "pad_token_id": 0,
}  # fmt: skip
OTHER = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"], "norm_bias": True,
    "attention_bias": True, "mlp_bias": True, "decoder_bias": False, "classifier_bias": True, "classifier_activation": "relu",
    "hidden_activation": "silu", "tie_word_embeddings": False, "attention_dropout": 0.1, "mlp_dropout": 0.2,
    "embedding_dropout": 0.3,
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 50.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
    },
}  # fmt: skip

CASES = [
    *cases("modernbert", BASE, OTHER, task="MaskedLM"),
    *cases("modernbert", BASE, task="Model"),
    *cases("modernbert-decoder", BASE, OTHER),
    *cases("modernbert", BASE | {"num_labels": 5, "classifier_pooling": "mean"}, task="SequenceClassification"),
    *cases("modernbert", BASE | {"num_labels": 3}, task="TokenClassification"),
    *cases("modernbert", BASE | {"num_labels": 4}, task="SequenceClassification"),
]
