"""SqueezeBERT, its projections in groups, each in another number, or in one."""

from __future__ import annotations

from huggingface.case import cases

BASE = {
    "hidden_size": 24, "embedding_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 17, "layer_norm_eps": 1e-3,
}  # fmt: skip
GROUPS = {
    "q_groups": 2, "k_groups": 3, "v_groups": 6, "post_attention_groups": 12, "intermediate_groups": 8, "output_groups": 1,
}  # fmt: skip
ONE = dict.fromkeys(GROUPS, 1)
OTHER = {
    "hidden_act": "relu", "type_vocab_size": 3, "attention_probs_dropout_prob": 0.2, "hidden_dropout_prob": 0.3,
    "tie_word_embeddings": False,
}  # fmt: skip

CASES = [
    *cases("squeezebert", BASE, GROUPS, ONE | OTHER, task="MaskedLM"),
    *cases("squeezebert", BASE, task="Model"),
    *cases("squeezebert", BASE | {"num_labels": 5}, task="SequenceClassification"),
    *cases("squeezebert", BASE | {"num_labels": 3}, task="TokenClassification"),
]
