"""BERT for generation, as a decoder and as an encoder."""

from __future__ import annotations

from huggingface.case import VOCAB, Case, cases

BASE = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 20, "layer_norm_eps": 1e-2,
    "max_position_embeddings": 16, "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3,
}  # fmt: skip

CASES = [
    *cases(
        "bert-generation",
        BASE | {"is_decoder": True},
        {"hidden_act": "relu", "tie_word_embeddings": False},
    ),
    Case("bert-generation", {"vocab_size": VOCAB, **BASE}, task="Model", name="encoder"),
]
