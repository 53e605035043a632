"""MarkupLM, whose paths are named in tests/huggingface/test_marked.py; elsewhere they are those of no step."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 19, "layer_norm_eps": 1e-3, "pad_token_id": 1, "max_depth": 3,
    "max_xpath_tag_unit_embeddings": 9, "max_xpath_subs_unit_embeddings": 11, "xpath_unit_hidden_size": 5,
    "tag_pad_id": 7, "subs_pad_id": 10,
}  # fmt: skip
OTHER = {
    "hidden_act": "relu", "attention_probs_dropout_prob": 0.2, "hidden_dropout_prob": 0.3, "type_vocab_size": 3,
}  # fmt: skip
CASES = [
    *cases("markuplm", BASE, OTHER, task="Model"),
    *cases("markuplm", BASE | {"num_labels": 5}, task="SequenceClassification"),
    *cases("markuplm", BASE | {"num_labels": 3}, task="TokenClassification"),
]
