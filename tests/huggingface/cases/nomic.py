"""Nomic BERT, GTE and Jina Embeddings 3."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 17,
    "layer_norm_eps": 1e-3,
}  # fmt: skip
OTHER = {
    "tie_word_embeddings": False, "hidden_act": "relu", "type_vocab_size": 3, "hidden_dropout_prob": 0.3,
    "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 50.0},
}  # fmt: skip

CASES = [
    *cases("nomic_bert", BASE, OTHER | {"head_dim": 8}, task="MaskedLM"),
    *cases("nomic_bert", BASE, task="Model"),
    *cases("gte", BASE, OTHER | {"type_vocab_size": 0}, task="MaskedLM"),
    *cases("jina_embeddings_v3", BASE, OTHER, task="MaskedLM"),
    *cases("nomic_bert", BASE | {"num_labels": 5}, task="SequenceClassification"),
    *cases("gte", BASE | {"num_labels": 5}, task="SequenceClassification"),
    *cases("gte", BASE | {"num_labels": 3}, task="TokenClassification"),
    *cases("jina_embeddings_v3", BASE | {"num_labels": 5}, task="SequenceClassification"),
]
