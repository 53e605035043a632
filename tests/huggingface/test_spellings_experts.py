"""Configurations of models with experts as the Hub has them, against what transformers makes of them."""

from __future__ import annotations

import pytest

from huggingface.test_spellings import LLAMA3, OLD, SIZES, differences

V3 = {
    "moe_intermediate_size": 8, "n_group": 1, "n_routed_experts": 8, "n_shared_experts": 1, "norm_topk_prob": True,
    "num_experts_per_tok": 2, "routed_scaling_factor": 2.5, "topk_group": 1, "first_k_dense_replace": 1, "rope_scaling": None,
}  # fmt: skip
LOCAL = ["sliding_attention"] * 3 + ["full_attention"]

CASES = {
    "mixtral": OLD | {"num_experts_per_tok": 2, "num_local_experts": 4, "router_aux_loss_coef": 0.02, "sliding_window": None,
                      "output_router_logits": False, "router_jitter_noise": 0.0},
    "qwen2_moe": OLD | {"decoder_sparse_step": 1, "max_window_layers": 21, "moe_intermediate_size": 8, "norm_topk_prob": False,
                        "num_experts": 4, "num_experts_per_tok": 2, "shared_expert_intermediate_size": 16,
                        "sliding_window": 16, "use_sliding_window": False},
    "qwen3_moe": OLD | {"attention_bias": False, "decoder_sparse_step": 1, "head_dim": 8, "max_window_layers": 48,
                        "mlp_only_layers": [], "moe_intermediate_size": 8, "norm_topk_prob": True, "num_experts": 4,
                        "num_experts_per_tok": 2, "rope_scaling": None, "sliding_window": None, "use_sliding_window": False},
    "olmoe": OLD | {"clip_qkv": None, "norm_topk_prob": False, "num_experts": 4, "num_experts_per_tok": 2,
                    "rope_scaling": None, "pad_token_id": 1},
    "granitemoe": OLD | {"attention_multiplier": 0.015625, "embedding_multiplier": 12.0, "logits_scaling": 6.0,
                         "num_experts_per_tok": 2, "num_local_experts": 4, "residual_multiplier": 0.22, "rope_scaling": None},
    "phimoe": OLD | {"attention_bias": True, "hidden_dropout": 0.0, "input_jitter_noise": 0.01, "lm_head_bias": True,
                     "num_experts_per_tok": 2, "num_local_experts": 4, "original_max_position_embeddings": 16,
                     "rope_scaling": {"long_factor": [2.0] * 4, "long_mscale": 1.2, "original_max_position_embeddings": 16,
                                      "short_factor": [1.0] * 4, "short_mscale": 1.2, "type": "longrope"},
                     "router_jitter_noise": 0.01, "sliding_window": 64},
    "gpt_oss": OLD | {"attention_bias": True, "experts_per_token": 2, "head_dim": 8, "initial_context_length": 16,
                      "layer_types": ["sliding_attention", "full_attention"] * 4, "num_experts_per_tok": 2,
                      "num_local_experts": 4, "rope_scaling": {
                          "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 16,
                          "rope_type": "yarn", "truncate": False},
                      "sliding_window": 16, "swiglu_limit": 7.0},
    "glm4_moe": OLD | V3 | {"attention_bias": True, "head_dim": 8, "num_nextn_predict_layers": 1, "use_qk_norm": True,
                            "partial_rotary_factor": 0.5},
    "solar_open": OLD | V3 | {"first_k_dense_replace": 0, "head_dim": 8, "use_qk_norm": False, "partial_rotary_factor": 1.0},
    "dots1": OLD | V3 | {"attention_bias": False, "max_window_layers": 8, "moe_layer_freq": 1, "scoring_func": "noaux_tc",
                         "sliding_window": None},
    "exaone_moe": OLD | {"first_k_dense_replace": 1, "head_dim": 8, "layer_types": LOCAL * 2,
                         "mlp_layer_types": ["dense"] + ["sparse"] * 7, "moe_intermediate_size": 8, "n_group": 1,
                         "norm_topk_prob": True, "num_experts": 4, "num_experts_per_tok": 2, "num_shared_experts": 1,
                         "num_nextn_predict_layers": 1, "rope_scaling": LLAMA3, "routed_scaling_factor": 2.5,
                         "scoring_func": "sigmoid", "sliding_window": 16, "sliding_window_pattern": "LLLG", "topk_group": 1,
                         "topk_method": "noaux_tc"},
    "afmoe": OLD | {"global_attn_every_n_layers": 4, "head_dim": 8, "layer_types": LOCAL * 2, "load_balance_coeff": 0.001,
                    "moe_intermediate_size": 8, "mup_enabled": True, "n_group": 1, "num_dense_layers": 2,
                    "num_expert_groups": 1, "num_experts": 4, "num_experts_per_tok": 2, "num_limited_groups": 1,
                    "num_shared_experts": 1, "rope_scaling": None, "route_norm": True, "route_scale": 2.8,
                    "score_func": "sigmoid", "sliding_window": 16, "topk_group": 1, "use_grouped_mm": True},
    "minimax_m2": OLD | {"attn_type_list": [1] * 8, "head_dim": 8, "mtp_transformer_layers": 1, "num_experts_per_tok": 2,
                         "num_local_experts": 4, "num_mtp_modules": 3, "qk_norm_type": "per_layer", "rotary_dim": 4,
                         "scoring_func": "sigmoid", "shared_intermediate_size": 0, "use_mtp": True, "use_qk_norm": True,
                         "use_routing_bias": True},
    "ernie4_5_moe": OLD | {"moe_capacity": [64, 64, 64], "moe_gate": "topk", "moe_intermediate_size": 8, "moe_k": 2,
                           "moe_layer_end_index": -1, "moe_layer_interval": 1, "moe_layer_start_index": 1,
                           "moe_num_experts": 4, "moe_num_shared_experts": 2, "moe_use_aux_free": True,
                           "num_nextn_predict_layers": 1, "rope_scaling": None, "use_bias": False},
    "hunyuan_v1_moe": OLD | {"attention_head_dim": 8, "cla_share_factor": 2, "head_dim": 8, "moe_intermediate_size": [40] * 8,
                             "moe_topk": [2] * 8, "norm_type": "rms", "num_experts": 4, "num_shared_expert": [1] * 8,
                             "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0,
                                              "mscale_all_dim": 1.0, "type": "dynamic"},
                             "use_cla": False, "use_mixed_mlp_moe": True, "use_qk_norm": True},
    "llama4_text": OLD | {"attention_chunk_size": 16, "attn_scale": 0.1, "attn_temperature_tuning": True, "floor_scale": 16,
                          "for_llm_compressor": False, "head_dim": 8, "interleave_moe_layer_step": 2,
                          "intermediate_size_mlp": 48, "no_rope_layers": [1, 1, 1, 0] * 2, "num_experts_per_tok": 1,
                          "num_local_experts": 4, "rope_scaling": LLAMA3, "router_jitter_noise": 0.0, "use_qk_norm": True},
    "mimo_v2_flash": {"add_full_attention_sink_bias": False, "add_swa_attention_sink_bias": True, "attention_chunk_size": 16,
                      "attention_value_scale": 0.707, "head_dim": 12, "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0, 1, 1],
                      "layernorm_epsilon": 1e-5, "moe_intermediate_size": 8, "moe_layer_freq": [0] + [1] * 7,
                      "n_routed_experts": 4, "n_shared_experts": None, "num_experts_per_tok": 2, "num_key_value_heads": 2,
                      "partial_rotary_factor": 0.334, "rope_theta": 5000000, "routed_scaling_factor": None,
                      "scoring_func": "sigmoid", "sliding_window_size": 16, "swa_head_dim": 12, "swa_num_attention_heads": 4,
                      "swa_num_key_value_heads": 4, "swa_rope_theta": 10000, "swa_v_head_dim": 8, "topk_method": "noaux_tc",
                      "v_head_dim": 8},
}  # fmt: skip
"""Keys as in published files; the values are small."""


@pytest.mark.parametrize("model_type", CASES)
def test_an_older_spelling_is_read_as_transformers_reads_it(model_type):
    assert differences(model_type, SIZES | CASES[model_type]) == []
