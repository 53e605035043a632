"""OLMoE and FlexOlmo."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, "num_experts": 5, "pad_token_id": 1,
}  # fmt: skip

CASES = [
    Case(
        model_type,
        BASE | {
            "num_key_value_heads": 2, "num_experts_per_tok": 3, "norm_topk_prob": True, "attention_bias": True,
            "rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 100.0}, "tie_word_embeddings": True,
        },
        name="renormalised",
    )
    for model_type in ("olmoe", "flex_olmo")
] + [
    Case("olmoe", BASE | {"num_experts_per_tok": 2, "hidden_act": "gelu", "rms_norm_eps": 1e-3}, name="plain"),
    Case("flex_olmo", BASE | {"num_experts_per_tok": 2, "head_dim": 6, "hidden_act": "gelu"}, name="wide"),
]  # fmt: skip
