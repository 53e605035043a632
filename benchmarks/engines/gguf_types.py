"""Model types that llama.cpp is asked about, at tiny sizes with every setting that its graphs compute off its usual value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VOCABULARY = 97
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip
FALCON = {name: size for name, size in SIZES.items() if name != "intermediate_size"}
GROUPED = {**SIZES, "num_key_value_heads": 2}
HEADS = {**GROUPED, "head_dim": 16}
TURNED = {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 16}
LINEAR = {"rope_type": "linear", "factor": 3.0, "rope_theta": 100.0}
EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24}

SHARED = {
    "n_routed_experts": 5, "num_experts_per_tok": 2, "n_shared_experts": 2, "moe_intermediate_size": 24,
    "first_k_dense_replace": 1, "routed_scaling_factor": 1.5,
}  # fmt: skip
LATENT = {
    "num_key_value_heads": 4, "kv_lora_rank": 20, "qk_nope_head_dim": 10, "qk_rope_head_dim": 8, "v_head_dim": 14,
    "attention_bias": False,
}  # fmt: skip
V3 = {**SIZES, **SHARED, **TURNED, **LATENT, "num_nextn_predict_layers": 0}
MAMBA = {
    "vocab_size": VOCABULARY, "hidden_size": 48, "num_hidden_layers": 3, "state_size": 16, "expand": 2, "conv_kernel": 4,
    "layer_norm_epsilon": 1e-3,
}  # fmt: skip

T5 = {
    "vocab_size": VOCABULARY, "d_model": 48, "d_kv": 10, "d_ff": 72, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4,
    "relative_attention_num_buckets": 8, "layer_norm_epsilon": 1e-3, "tie_word_embeddings": False,
}  # fmt: skip

TYPES: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "llama": (
        {**HEADS, **TURNED, "rms_norm_eps": 1e-3},
        {**GROUPED, "rope_parameters": LLAMA3, "attention_bias": False, "tie_word_embeddings": True},
        {**GROUPED, "rope_parameters": YARN},
        {**GROUPED, "rope_parameters": LINEAR, "attention_bias": True},
    ),
    "mistral": ({**HEADS, **TURNED, "sliding_window": None}, {**HEADS, "sliding_window": 64}),
    "mixtral": ({**HEADS, **TURNED, "num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": None},),
    "qwen2": ({**GROUPED, **TURNED}, {**GROUPED, "rope_parameters": YARN, "tie_word_embeddings": True}),
    "qwen3": ({**HEADS, **TURNED},),
    "qwen2_moe": ({**GROUPED, **TURNED, **EXPERTS, "shared_expert_intermediate_size": 40},),
    "qwen3_moe": ({**HEADS, **TURNED, **EXPERTS, "norm_topk_prob": True},),
    "gemma": ({**HEADS, **TURNED},),
    "gemma2": (
        {**HEADS, **TURNED, "query_pre_attn_scalar": 16, "sliding_window": 5, "attn_logit_softcapping": 7.0,
         "final_logit_softcapping": 9.0},
    ),
    "gemma3_text": (
        {**HEADS, "num_hidden_layers": 7, "query_pre_attn_scalar": 16, "sliding_window": 5,
         "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
                             "full_attention": {"rope_type": "linear", "rope_theta": 900.0, "factor": 3.0}}},
        {**HEADS, "query_pre_attn_scalar": 16, "sliding_window": 5,
         "layer_types": ["full_attention", "sliding_attention", "full_attention"]},
    ),
    "gpt2": ({"vocab_size": VOCABULARY, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 64, "n_inner": 100},),
    "phi3": (
        {**GROUPED, **TURNED, "pad_token_id": 0},
        {**GROUPED, "pad_token_id": 0, "sliding_window": 64, "original_max_position_embeddings": 16,
         "rope_parameters": {"rope_type": "longrope", "rope_theta": 100.0, "short_factor": [1.0, 1.1, 1.2, 1.3, 1.5, 2.0],
                             "long_factor": [1.0, 2.0, 3.0, 4.0, 4.5, 5.0], "original_max_position_embeddings": 16}},
    ),
    "phi": ({**SIZES, "num_key_value_heads": 2, "partial_rotary_factor": 0.5},),
    "gpt_neox": (
        {**SIZES, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}},
        {**SIZES, "use_parallel_residual": False, "tie_word_embeddings": True, "num_attention_heads": 3},
    ),
    "falcon": (
        {**FALCON, "ffn_hidden_size": 100, "multi_query": True, "new_decoder_architecture": False, "bias": False,
         "alibi": False},
        {**FALCON, "ffn_hidden_size": 100, "num_kv_heads": 2, "new_decoder_architecture": True, "bias": False, "alibi": False},
        {**FALCON, "num_kv_heads": 2, "new_decoder_architecture": True, "num_ln_in_parallel_attn": 1, "bias": False,
         "alibi": False},
    ),
    "bloom": ({"vocab_size": VOCABULARY, "hidden_size": 48, "n_layer": 3, "n_head": 6},),
    "mpt": (
        {"vocab_size": VOCABULARY, "d_model": 48, "n_layers": 3, "n_heads": 6, "max_seq_len": 64},
        {"vocab_size": VOCABULARY, "d_model": 48, "n_layers": 3, "n_heads": 4, "max_seq_len": 64,
         "attn_config": {"clip_qkv": 0.8}},
    ),
    "gpt_bigcode": ({"vocab_size": VOCABULARY, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 64, "n_inner": 100},),
    "starcoder2": ({**GROUPED, **TURNED, "sliding_window": None, "use_bias": True},),
    "stablelm": (
        {**GROUPED, "partial_rotary_factor": 0.5, "use_qkv_bias": True},
        {**GROUPED, "qk_layernorm": True, "use_parallel_residual": True, "partial_rotary_factor": 0.5},
    ),
    "olmo": ({**GROUPED, **TURNED, "clip_qkv": 0.8}, {**GROUPED, "tie_word_embeddings": True}),
    "olmo2": ({**GROUPED, **TURNED},),
    "olmo3": (
        {**GROUPED, "num_hidden_layers": 4, "sliding_window": 5,
         "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 100.0}, "full_attention": YARN}},
    ),
    "olmoe": ({**SIZES, **TURNED, "num_key_value_heads": 4, "num_experts": 5, "num_experts_per_tok": 2},),
    "cohere": ({**GROUPED, **TURNED, "logit_scale": 0.3},),
    "cohere2": (
        {**GROUPED, **TURNED, "logit_scale": 0.3, "sliding_window": 5, "num_hidden_layers": 5},
        {**GROUPED, "logit_scale": 0.3, "sliding_window": 5,
         "layer_types": ["full_attention", "sliding_attention", "full_attention"]},
    ),
    "granite": (
        {**GROUPED, **TURNED, "attention_multiplier": 0.3, "residual_multiplier": 0.4, "embedding_multiplier": 3.0,
         "logits_scaling": 2.0, "attention_bias": True},
    ),
    "granitemoe": (
        {**GROUPED, **TURNED, "attention_multiplier": 0.3, "residual_multiplier": 0.4, "embedding_multiplier": 3.0,
         "logits_scaling": 2.0, "num_local_experts": 5, "num_experts_per_tok": 2},
    ),
    "internlm3": ({**HEADS, **TURNED},),
    "smollm3": ({**GROUPED, **TURNED, "num_hidden_layers": 5},),
    "nemotron": ({**GROUPED, "partial_rotary_factor": 0.5, "norm_eps": 1e-3, "mlp_bias": True, "attention_bias": True},),
    "exaone4": ({**GROUPED, **TURNED, "sliding_window": None, "layer_types": ["full_attention"] * 3},),
    "seed_oss": ({**HEADS, **TURNED, "attention_bias": True, "attention_out_bias": False},),
    "arcee": ({**GROUPED, "rope_parameters": LLAMA3},),
    "glm4": ({**HEADS, "partial_rotary_factor": 0.5, "attention_bias": True, "pad_token_id": 0},),
    "ernie4_5": ({**HEADS, **TURNED, "use_bias": False},),
    "hunyuan_v1_dense": ({**HEADS, **TURNED},),
    "jais2": ({**GROUPED, **TURNED, "mlp_bias": True, "attention_bias": True},),
    "gpt_oss": (
        {**HEADS, "sliding_window": 5, "num_local_experts": 5, "num_experts_per_tok": 2, "attention_bias": True,
         "swiglu_limit": 7.0, "rope_parameters": {**YARN, "truncate": True}},
    ),
    "ernie4_5_moe": (
        {**HEADS, **TURNED, "use_bias": False, "moe_num_experts": 5, "moe_k": 2, "moe_intermediate_size": 24,
         "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": 2},
    ),
    "hunyuan_v1_moe": ({**HEADS, **TURNED, "num_experts": 5, "moe_topk": 2, "intermediate_size": 24},),
    "lfm2": (
        {**GROUPED, **TURNED, "layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False,
         "conv_L_cache": 4},
    ),
    "mamba": ({**MAMBA, "time_step_rank": 3},),
    "falcon_mamba": ({**MAMBA, "time_step_rank": 3, "mixer_rms_eps": 1e-3},),
    "mamba2": ({**MAMBA, "num_heads": 6, "head_dim": 16, "n_groups": 1},),
    "granitemoehybrid": (
        {**GROUPED, "attention_multiplier": 0.3, "residual_multiplier": 0.4, "embedding_multiplier": 3.0, "logits_scaling": 2.0,
         "layer_types": ["mamba", "attention", "mamba"], "num_local_experts": 5, "num_experts_per_tok": 2,
         "shared_intermediate_size": 40, "mamba_n_heads": 6, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 16},
    ),
    "glm4_moe": (
        {**HEADS, **SHARED, "partial_rotary_factor": 0.5, "attention_bias": True, "use_qk_norm": True, "norm_topk_prob": True},
    ),
    "dots1": ({**HEADS, **SHARED, **TURNED, "num_key_value_heads": 4, "norm_topk_prob": True, "sliding_window": None},),
    "deepseek_v3": (
        {**V3, "q_lora_rank": 20, "n_group": 2, "topk_group": 1, "n_routed_experts": 6,
         "norm_topk_prob": True},
        {**V3, "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}, "q_lora_rank": None, "n_group": 1,
         "topk_group": 1, "norm_topk_prob": False},
    ),
    "deepseek_v2": (
        {**SIZES, **SHARED, **TURNED, **LATENT, "q_lora_rank": 20, "topk_method": "greedy"},
        {**SIZES, **SHARED, **TURNED, **LATENT, "q_lora_rank": None, "topk_method": "greedy", "tie_word_embeddings": True,
         "rope_parameters": {**YARN, "mscale": 0.7, "mscale_all_dim": 0.7}},
    ),
    "lfm2_moe": (
        {**GROUPED, **TURNED, "layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 4, "num_dense_layers": 1,
         "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "routed_scaling_factor": 1.0,
         "use_expert_bias": True, "norm_topk_prob": True},
    ),
    "t5": ({**T5, "feed_forward_proj": "relu"}, {**T5, "feed_forward_proj": "gated-gelu", "num_decoder_layers": 3}),
}  # fmt: skip
