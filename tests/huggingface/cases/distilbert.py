"""DistilBERT."""

from __future__ import annotations

from huggingface.case import cases

BASE = {"dim": 24, "hidden_dim": 40, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 17}
OTHER = {"tie_word_embeddings": False, "activation": "relu", "dropout": 0.3, "attention_dropout": 0.2}

CASES = [
    *cases("distilbert", BASE, OTHER, task="MaskedLM"),
    *cases("distilbert", BASE, task="Model"),
    *cases("distilbert", BASE | {"num_labels": 5}, task="SequenceClassification"),
    *cases("distilbert", BASE | {"num_labels": 3}, task="TokenClassification"),
]
