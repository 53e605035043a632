"""ConvBERT, with one group and several, and embeddings as wide as D or not."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "embedding_size": 10, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 17, "layer_norm_eps": 1e-3, "conv_kernel_size": 5,
}  # fmt: skip
GROUPS = {"num_groups": 4, "head_ratio": 1, "conv_kernel_size": 3}
OTHER = {
    "embedding_size": 24, "head_ratio": 3, "hidden_act": "relu", "type_vocab_size": 3, "attention_probs_dropout_prob": 0.2,
    "hidden_dropout_prob": 0.3, "tie_word_embeddings": False,
}  # fmt: skip
PADDED = "its convolutions read padding"

CASES = [
    *cases("convbert", BASE, GROUPS, OTHER, {"head_ratio": 5}, task="MaskedLM", unpadded=PADDED),
    *cases("convbert", BASE, task="Model", unpadded=PADDED),
    *cases("convbert", BASE | {"num_labels": 5, "hidden_act": "silu"}, task="SequenceClassification", unpadded=PADDED),
    *cases("convbert", BASE | {"num_labels": 3}, task="TokenClassification", unpadded=PADDED),
]
