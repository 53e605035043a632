"""Nyströmformer with as many landmarks as segments, with and without a head."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 17,
    "layer_norm_eps": 1e-3, "num_landmarks": 8, "segment_means_seq_len": 8, "conv_kernel_size": 5,
}  # fmt: skip
OTHER = {
    "tie_word_embeddings": False, "hidden_act": "relu", "type_vocab_size": 3, "attention_probs_dropout_prob": 0.2,
    "hidden_dropout_prob": 0.3,
}  # fmt: skip
LEAK = "transformers does not mask padding before the convolution"

CASES = [
    *cases("nystromformer", BASE, OTHER, task="MaskedLM", unpadded=LEAK),
    *cases("nystromformer", BASE, task="Model", unpadded=LEAK),
    *cases("nystromformer", BASE | {"num_labels": 5, "hidden_act": "relu"}, task="SequenceClassification", unpadded=LEAK),
    *cases("nystromformer", BASE | {"num_labels": 3}, task="TokenClassification", unpadded=LEAK),
]
