"""BERT and its kin, with and without a head, and as decoders."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 17,
    "layer_norm_eps": 1e-3,
}  # fmt: skip
UNTIED = {"tie_word_embeddings": False, "hidden_act": "relu", "type_vocab_size": 3, "attention_probs_dropout_prob": 0.2}

CASES = [
    *cases("bert", BASE, UNTIED, task="MaskedLM"),
    *cases("bert", BASE | {"hidden_act": "gelu_pytorch_tanh"}, task="Model"),
    *cases("bert", BASE | {"is_decoder": True}, UNTIED),
    *cases("ernie", BASE, UNTIED, task="MaskedLM"),
    *cases("ernie", BASE | {"is_decoder": True}),
    *cases("megatron-bert", BASE, UNTIED, task="MaskedLM"),
    *cases("megatron-bert", BASE | {"hidden_dropout_prob": 0.3}, task="Model"),
    *cases(
        "big_bird",
        BASE | {"attention_type": "original_full"},
        UNTIED | {"use_bias": False, "rescale_embeddings": True},
        task="MaskedLM",
    ),
    *cases("big_bird", BASE | {"attention_type": "original_full", "num_labels": 5}, task="SequenceClassification"),
    *cases("bert", BASE | {"num_labels": 5}, task="SequenceClassification"),
    *cases("bert", BASE | {"num_labels": 3}, task="TokenClassification"),
    *cases("megatron-bert", BASE | {"num_labels": 5}, task="SequenceClassification"),
]
