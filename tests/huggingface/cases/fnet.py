"""FNet, with and without a head."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "max_position_embeddings": 17, "layer_norm_eps": 1e-3,
}  # fmt: skip
OTHER = {"tie_word_embeddings": False, "hidden_act": "relu", "type_vocab_size": 3, "hidden_dropout_prob": 0.3}
ALL = "the transform over positions reads padding, in transformers and here"

CASES = [
    *cases("fnet", BASE, OTHER, task="MaskedLM", unpadded=ALL),
    *cases("fnet", BASE, task="Model", unpadded=ALL),
    *cases("fnet", BASE | {"num_labels": 5}, task="SequenceClassification", unpadded=ALL),
    *cases("fnet", BASE | {"num_labels": 3}, task="TokenClassification", unpadded=ALL),
]
