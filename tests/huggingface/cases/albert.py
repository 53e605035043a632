"""ALBERT: one group, several, and groups of several."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 17,
    "embedding_size": 10, "layer_norm_eps": 1e-3,
}  # fmt: skip
GROUPS = {
    "num_hidden_layers": 5, "num_hidden_groups": 3, "inner_group_num": 2, "tie_word_embeddings": False, "hidden_act": "relu",
}  # fmt: skip

CASES = [
    *cases("albert", BASE, GROUPS, task="MaskedLM"),
    *cases("albert", BASE, task="Model"),
    *cases("albert", BASE | {"num_labels": 5}, task="SequenceClassification"),
    *cases("albert", BASE | {"num_labels": 3}, task="TokenClassification"),
]
