"""ELECTRA's generator and discriminator, RemBERT and RoFormer."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 17,
    "layer_norm_eps": 1e-3,
}  # fmt: skip
ELECTRA = BASE | {"embedding_size": 10, "hidden_act": "relu"}
REMBERT = BASE | {"input_embedding_size": 10, "output_embedding_size": 14}

ROFORMER = ELECTRA | {"hidden_act": "silu", "tie_word_embeddings": False}

CASES = [
    *cases("electra", ELECTRA, {"tie_word_embeddings": False, "type_vocab_size": 3, "embedding_size": 24}, task="MaskedLM"),
    *cases("electra", ELECTRA, task="PreTraining"),
    *cases("electra", ELECTRA, task="Model"),
    *cases("rembert", REMBERT, {"hidden_act": "silu", "hidden_dropout_prob": 0.2}, task="MaskedLM"),
    *cases("rembert", REMBERT, task="Model"),
    *cases("electra", ELECTRA | {"num_labels": 5}, task="SequenceClassification"),
    *cases("electra", ELECTRA | {"num_labels": 3}, task="TokenClassification"),
    *cases("rembert", REMBERT | {"num_labels": 5}, task="SequenceClassification"),
    *cases("roformer", ROFORMER, {"embedding_size": 24, "tie_word_embeddings": True}, task="MaskedLM"),
    *cases("roformer", ROFORMER | {"num_labels": 5}, task="SequenceClassification"),
]
