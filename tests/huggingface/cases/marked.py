"""BERT whose tokens carry more numbers; with these, tests/huggingface/test_marked.py."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 17, "layer_norm_eps": 1e-3, "pad_token_id": 0,
}  # fmt: skip
OTHER = {
    "hidden_act": "relu", "attention_probs_dropout_prob": 0.2, "hidden_dropout_prob": 0.3, "tie_word_embeddings": False,
}  # fmt: skip
PAGE = BASE | {"max_2d_position_embeddings": 19}
TABLE = BASE | {"type_vocab_sizes": [3, 7, 9, 2, 7], "reset_position_index_per_cell": False}
CHARACTERS = BASE | {
    "pad_token_id": 1,
    "shape_vocab_size": 13, "shape_embed_dim": 7, "pronunciation_vocab_size": 11, "pronunciation_embed_dim": 5,
}  # fmt: skip
"""The row of padding takes no gradient in transformers, and 0 is every number that a call does not name."""
CASES = [
    case
    for model_type, base, other in (
        ("layoutlm", PAGE, OTHER | {"type_vocab_size": 3}),
        ("tapas", TABLE, OTHER),
        ("roc_bert", CHARACTERS, OTHER | {"type_vocab_size": 3}),
    )
    for case in (
        *cases(model_type, base, other, task="MaskedLM"),
        *cases(model_type, base, task="Model"),
        *cases(model_type, base | {"num_labels": 5}, task="SequenceClassification"),
    )
] + [
    case
    for model_type, base in (("layoutlm", PAGE), ("roc_bert", CHARACTERS))
    for case in cases(model_type, base | {"num_labels": 3}, task="TokenClassification")
]
