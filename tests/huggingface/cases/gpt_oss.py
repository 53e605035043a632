"""gpt-oss."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 12, "num_attention_heads": 4, "max_position_embeddings": 64,
    "num_local_experts": 5,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "factor": 8.0, "rope_theta": 100.0, "original_max_position_embeddings": 16, "truncate": False,
    "beta_fast": 8.0, "beta_slow": 0.5,
}  # fmt: skip

FILTER = BASE | {
    "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 6, "num_experts_per_tok": 2, "sliding_window": 3,
    "rope_parameters": YARN, "num_labels": 5, "pad_token_id": 0, "eos_token_id": 1,
}  # fmt: skip
PLAIN = {"attention_bias": False, "swiglu_limit": 0.4, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}}

CASES = [
    Case("openai_privacy_filter", FILTER, "TokenClassification"),
    Case("openai_privacy_filter", FILTER | PLAIN, "Model", name="headless"),
    Case(
        "gpt_oss",
        BASE | {
            "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 6, "num_experts_per_tok": 3, "sliding_window": 5,
            "rope_parameters": YARN, "swiglu_limit": 0.4,
        },
        name="alternating",
    ),
    Case(
        "gpt_oss",
        BASE | {
            "num_hidden_layers": 2, "num_key_value_heads": 1, "head_dim": 8, "num_experts_per_tok": 2, "sliding_window": 4,
            "layer_types": ["full_attention", "sliding_attention"], "attention_bias": False, "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}, "rms_norm_eps": 1e-3,
        },
        name="tied",
    ),
]  # fmt: skip
