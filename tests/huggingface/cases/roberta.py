"""RoBERTa and its kin, with another padding id than usual, and as decoders."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 19,
    "layer_norm_eps": 1e-3,
}  # fmt: skip
OTHER = {
    "tie_word_embeddings": False, "hidden_act": "relu", "type_vocab_size": 3, "pad_token_id": 3, "hidden_dropout_prob": 0.3,
}  # fmt: skip
MPNET = BASE | {"num_attention_heads": 3}
SHORT = {"tie_word_embeddings": False, "hidden_act": "silu", "max_position_embeddings": 15}
COUNTED = "positions that are given begin at 0 there, and those that the class counts behind the id of padding"

CASES = [
    *cases("roberta", BASE, OTHER, task="MaskedLM"),
    *cases("roberta", BASE, task="Model"),
    *cases("roberta", BASE | {"is_decoder": True}, OTHER, unpadded=COUNTED),
    *cases("xlm-roberta", OTHER | BASE, task="MaskedLM"),
    *cases("xlm-roberta", BASE | {"is_decoder": True}, unpadded=COUNTED),
    *cases("camembert", OTHER | BASE, task="MaskedLM"),
    *cases("data2vec-text", BASE, OTHER, task="MaskedLM"),
    *cases("roberta-prelayernorm", BASE, OTHER, task="MaskedLM"),
    *cases("xlm-roberta-xl", BASE, OTHER, task="MaskedLM"),
    *cases(
        "mpnet", MPNET, {"tie_word_embeddings": False, "hidden_act": "silu", "max_position_embeddings": 15}, task="MaskedLM"
    ),
    *cases("ibert", BASE, {key: value for key, value in OTHER.items() if key != "hidden_act"}, task="MaskedLM"),
    *cases("ibert", BASE | {"num_labels": 5}, task="SequenceClassification"),
    *cases("roberta", BASE | {"num_labels": 5}, task="SequenceClassification"),
    *cases("roberta", BASE | {"num_labels": 3}, task="TokenClassification"),
    *cases("mpnet", MPNET | {"num_labels": 5}, task="SequenceClassification"),
]
