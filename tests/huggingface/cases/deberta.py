"""DeBERTa: distances one by one and in buckets, every term, projections shared or not."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 17,
    "layer_norm_eps": 1e-3, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
}  # fmt: skip
FIRST = {
    "max_relative_positions": 5, "type_vocab_size": 3, "tie_word_embeddings": False, "hidden_act": "relu",
    "position_biased_input": False,
}  # fmt: skip
BUCKETS = {
    "position_buckets": 4, "max_relative_positions": 9, "norm_rel_ebd": "layer_norm", "share_att_key": True,
    "position_biased_input": False, "type_vocab_size": 2,
}  # fmt: skip
PLAIN = {"relative_attention": False, "tie_word_embeddings": False, "hidden_act": "relu", "hidden_dropout_prob": 0.3}

CASES = [
    *cases("deberta", BASE, FIRST | {"pos_att_type": ["p2c"]}, task="MaskedLM"),
    *cases("deberta", BASE | PLAIN, task="Model"),
    *cases("deberta-v2", BASE, BUCKETS, BUCKETS | {"share_att_key": False, "pos_att_type": ["c2p"]}, task="MaskedLM"),
    *cases("deberta-v2", BASE | PLAIN, task="Model"),
    *cases("deberta", BASE | {"num_labels": 5, "pooler_hidden_act": "relu"}, task="SequenceClassification"),
    *cases("deberta", BASE | {"num_labels": 3}, task="TokenClassification"),
    *cases("deberta-v2", BASE | {"num_labels": 5}, task="SequenceClassification"),
]
