"""ESM: rotary and learned positions, with masks among the tokens."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 19,
    "layer_norm_eps": 1e-3, "pad_token_id": 1, "mask_token_id": 24,
}  # fmt: skip
ROTARY = {
    "position_embedding_type": "rotary", "rope_theta": 50.0, "token_dropout": True, "tie_word_embeddings": False,
    "hidden_dropout_prob": 0.3,
}  # fmt: skip

CASES = [
    *cases("esm", BASE | {"emb_layer_norm_before": True, "pad_token_id": 3}, ROTARY, task="MaskedLM"),
    *cases("esm", BASE | ROTARY, task="Model"),
    *cases("esm", BASE | {"num_labels": 5}, task="SequenceClassification"),
    *cases("esm", BASE | {"num_labels": 3}, task="TokenClassification"),
]
