"""MobileBERT, with one network in a layer and several."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "embedding_size": 10, "intra_bottleneck_size": 12, "intermediate_size": 20, "num_hidden_layers": 3,
    "num_attention_heads": 4, "max_position_embeddings": 17, "num_feedforward_networks": 3, "layer_norm_eps": 1e-3,
}  # fmt: skip
OTHER = {
    "num_feedforward_networks": 1, "hidden_act": "gelu", "type_vocab_size": 3, "attention_probs_dropout_prob": 0.2,
    "hidden_dropout_prob": 0.3,
}  # fmt: skip
PADDED = "its trigrams read padding"

CASES = [
    *cases("mobilebert", BASE, OTHER, task="MaskedLM", unpadded=PADDED),
    *cases("mobilebert", BASE, task="Model", unpadded=PADDED),
    *cases("mobilebert", BASE | {"num_labels": 5}, task="SequenceClassification", unpadded=PADDED),
    *cases("mobilebert", BASE | {"num_labels": 3}, task="TokenClassification", unpadded=PADDED),
]
