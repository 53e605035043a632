"""GLM 4.5, Solar Open, dots.llm1."""

from __future__ import annotations

from huggingface.case import VOCAB, Case

BASE = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 20, "num_attention_heads": 4, "moe_intermediate_size": 12,
    "max_position_embeddings": 64,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16}
GROUPED = BASE | {
    "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 8, "n_routed_experts": 8, "n_group": 4, "topk_group": 2,
    "num_experts_per_tok": 3, "routed_scaling_factor": 2.5, "n_shared_experts": 2, "attention_bias": True,
    "rms_norm_eps": 1e-3,
}  # fmt: skip
PLAIN = BASE | {
    "num_hidden_layers": 2, "num_key_value_heads": 4, "n_routed_experts": 5, "num_experts_per_tok": 2, "hidden_act": "gelu",
    "n_shared_experts": 1, "tie_word_embeddings": True,
}  # fmt: skip

CASES = [
    Case(
        "glm4_moe",
        GROUPED | {
            "first_k_dense_replace": 1, "use_qk_norm": True, "norm_topk_prob": False,
            "rope_parameters": YARN | {"partial_rotary_factor": 0.75},
        },
        name="groups",
    ),
    Case(
        "glm4_moe",
        PLAIN | {"first_k_dense_replace": 0, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}},
        name="tied",
    ),
    Case("solar_open", GROUPED | {"rope_parameters": YARN, "norm_topk_prob": False}, name="groups"),
    Case(
        "solar_open",
        PLAIN | {
            "head_dim": 12, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 1.0},
        },
        name="tied",
    ),
    Case(
        "dots1",
        GROUPED | {
            "first_k_dense_replace": 1, "norm_topk_prob": True, "sliding_window": 5, "max_window_layers": 2,
            "rope_parameters": YARN,
        },
        name="groups",
    ),
    Case(
        "dots1",
        PLAIN | {"head_dim": 6, "sliding_window": None, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}},
        name="tied",
    ),
]  # fmt: skip
