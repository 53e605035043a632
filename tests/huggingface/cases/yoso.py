"""YOSO with expected weights, by hashes of few bits and of many."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 17, "layer_norm_eps": 1e-3, "hash_code_len": 3,
}  # fmt: skip
OTHER = {
    "hash_code_len": 9, "hidden_act": "relu", "type_vocab_size": 3, "hidden_dropout_prob": 0.3, "tie_word_embeddings": False,
    "use_fast_hash": False,
}  # fmt: skip
MASK = "transformers multiplies weights by a mask that it has made for scores"
CASES = [
    *cases("yoso", BASE, OTHER, task="MaskedLM", unpadded=MASK),
    *cases("yoso", BASE, task="Model", unpadded=MASK),
    *cases("yoso", BASE | {"num_labels": 5}, task="SequenceClassification", unpadded=MASK),
    *cases("yoso", BASE | {"num_labels": 3}, task="TokenClassification", unpadded=MASK),
]
