"""Released models with latent attention and recurrent mixers: read as the catalogue's rows, and expressed by their family."""

from __future__ import annotations

import json

import pytest
import transformers

import anyformer as af
from anyformer import huggingface
from anyformer.describe import diff
from anyformer.huggingface.canonical import canonical
from covering import but_slow

MAPPED = {
    "deepseek-v2-lite": "deepseek_v2",
    "deepseek-v2": "deepseek_v2",
    "deepseek-v4-flash": "deepseek_v4",
    "deepseek-v4-pro": "deepseek_v4",
    "qwen3-next-80b-a3b": "qwen3_next",
    "lfm2-350m": "lfm2",
    "lfm2-8b-a1b": "lfm2_moe",
}
"""The catalogue's row -> the model type that an export of it gets."""

YARN = {"beta_fast": 32, "beta_slow": 1, "factor": 40, "original_max_position_embeddings": 4096, "type": "yarn"}
DEEPSEEK = {
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "seq_aux": True, "ep_size": 1,
    "max_position_embeddings": 163840, "moe_layer_freq": 1, "aux_loss_alpha": 0.001, "rope_theta": 10000, "rms_norm_eps": 1e-6,
}  # fmt: skip
V4 = {
    "model_type": "deepseek_v4", "compress_rope_theta": 160000, "expert_dtype": "fp4", "hc_eps": 1e-6, "hc_mult": 4,
    "hc_sinkhorn_iters": 20, "head_dim": 512, "hidden_act": "silu", "index_head_dim": 128, "index_n_heads": 64,
    "max_position_embeddings": 1048576, "n_shared_experts": 1, "norm_topk_prob": True, "num_experts_per_tok": 6,
    "num_hash_layers": 3, "num_key_value_heads": 1, "num_nextn_predict_layers": 1, "o_lora_rank": 1024, "qk_rope_head_dim": 64,
    "rms_norm_eps": 1e-6, "rope_theta": 10000, "scoring_func": "sqrtsoftplus", "sliding_window": 128, "swiglu_limit": 10.0,
    "topk_method": "noaux_tc", "vocab_size": 129280,
    "rope_scaling": YARN | {"factor": 16, "original_max_position_embeddings": 65536},
}  # fmt: skip
RELEASED = {
    "deepseek-v4-flash": V4 | {
        "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0], "hidden_size": 4096, "index_topk": 512, "moe_intermediate_size": 2048,
        "n_routed_experts": 256, "num_attention_heads": 64, "num_hidden_layers": 43, "o_groups": 8, "q_lora_rank": 1024,
        "routed_scaling_factor": 1.5,
    },
    "deepseek-v4-pro": V4 | {
        "compress_ratios": [128, 128, *[4, 128] * 29, 4, 0], "hidden_size": 7168, "index_topk": 1024,
        "moe_intermediate_size": 3072, "n_routed_experts": 384, "num_attention_heads": 128, "num_hidden_layers": 61,
        "o_groups": 16, "q_lora_rank": 1536, "routed_scaling_factor": 2.5,
    },
    "deepseek-v2-lite": DEEPSEEK | {
        "model_type": "deepseek_v2", "first_k_dense_replace": 1, "hidden_size": 2048, "intermediate_size": 10944, "n_group": 1,
        "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2, "norm_topk_prob": False,
        "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16,
        "q_lora_rank": None, "rope_scaling": YARN | {"mscale": 0.707, "mscale_all_dim": 0.707}, "routed_scaling_factor": 1.0,
        "scoring_func": "softmax", "topk_group": 1, "topk_method": "greedy", "vocab_size": 102400,
    },
    "deepseek-v3": DEEPSEEK | {
        "model_type": "deepseek_v3", "first_k_dense_replace": 3, "hidden_size": 7168, "intermediate_size": 18432, "n_group": 8,
        "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": True,
        "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
        "q_lora_rank": 1536, "rope_scaling": YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}, "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid", "topk_group": 4, "topk_method": "noaux_tc", "vocab_size": 129280,
        "num_nextn_predict_layers": 1,
    },
    "kimi-linear-48b-a3b": {
        "model_type": "kimi_linear", "first_k_dense_replace": 1, "head_dim": 72, "hidden_size": 2304,
        "intermediate_size": 9216, "kv_lora_rank": 512, "mla_use_nope": True, "model_max_length": 1048576,
        "linear_attn_config": {
            "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "kda_layers": [i for i in range(1, 27) if i % 4],
            "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4,
        },
        "moe_intermediate_size": 1024, "moe_layer_freq": 1, "moe_renormalize": True, "moe_router_activation_func": "sigmoid",
        "num_attention_heads": 32, "num_expert_group": 1, "num_experts": 256, "num_experts_per_token": 8,
        "num_hidden_layers": 27, "num_key_value_heads": 32, "num_nextn_predict_layers": 0, "num_shared_experts": 1,
        "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-5, "rope_scaling": None,
        "rope_theta": 10000.0, "routed_scaling_factor": 2.446, "topk_group": 1, "use_grouped_topk": True, "v_head_dim": 128,
        "vocab_size": 163840,
    },
    "qwen3-next-80b-a3b": {
        "model_type": "qwen3_next", "decoder_sparse_step": 1, "full_attention_interval": 4, "head_dim": 256,
        "hidden_size": 2048, "intermediate_size": 5120, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
        "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128, "mlp_only_layers": [],
        "max_position_embeddings": 262144, "moe_intermediate_size": 512, "num_attention_heads": 16, "num_experts": 512,
        "num_experts_per_tok": 10, "num_hidden_layers": 48, "num_key_value_heads": 2, "partial_rotary_factor": 0.25,
        "rms_norm_eps": 1e-6, "rope_scaling": None, "rope_theta": 10000000, "shared_expert_intermediate_size": 512,
        "use_sliding_window": False, "vocab_size": 151936,
    },
    "lfm2-1.2b": {
        "model_type": "lfm2", "block_auto_adjust_ff_dim": True, "block_dim": 2048, "block_ff_dim": 12288,
        "block_ffn_dim_multiplier": 1.0, "block_mlp_init_scale": 1.0, "block_multiple_of": 256, "block_norm_eps": 1e-5,
        "block_out_init_scale": 1.0, "block_use_swiglu": True, "block_use_xavier_init": True, "conv_L_cache": 3,
        "conv_bias": False, "conv_dim": 2048, "conv_dim_out": 2048, "conv_use_xavier_init": True,
        "full_attn_idxs": [2, 5, 8, 10, 12, 14], "hidden_size": 2048, "max_position_embeddings": 128000, "norm_eps": 1e-5,
        "num_attention_heads": 32, "num_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
        "rope_theta": 1000000.0, "tie_embedding": True, "use_pos_enc": True, "vocab_size": 65536,
    },
}  # fmt: skip
"""What their files say, but for ids of tokens and what changes nothing."""
TYPES = (
    "deepseek_v4", "deepseek_v3", "deepseek_v2", "glm4_moe_lite", "kimi_linear", "bailing_hybrid", "qwen3_next",
    "qwen3_5_moe_text", "qwen3_5_text", "minimax", "lfm2", "lfm2_moe", "olmo_hybrid", "youtu", "minicpm3",
)  # fmt: skip


@pytest.mark.parametrize("name", but_slow(MAPPED, {of: name for name, of in MAPPED.items()}.values()))
def test_a_released_model_is_expressed_by_its_family(name):
    huggingface.find_family(af.architecture(name), MAPPED[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MAPPED)
def test_no_family_before_it_expresses_a_released_model(name):
    """All those before are tried, a second for some."""
    assert huggingface.find_family(af.architecture(name))[0].model_type == MAPPED[name]


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_configuration_is_the_row_of_the_catalogue(name):
    read, row = huggingface.read_architecture(huggingface.Config(RELEASED[name]))[0], af.architecture(name)
    assert af.cost(read).params.total == af.cost(row).params.total
    # The files of Qwen3-Next hold a module of which its configuration says nothing.
    row = row.but(mtp=None) if name == "qwen3-next-80b-a3b" else row
    assert not diff(canonical(row), canonical(read))


@pytest.mark.parametrize("model_type", TYPES)
def test_a_key_that_is_absent_has_the_default_of_the_configuration_class(model_type):
    full = json.loads(transformers.AutoConfig.for_model(model_type).to_json_string(use_diff=False))
    if model_type == "deepseek_v2":
        full["num_experts_per_tok"] = 6  # None there, and then no model can be made
    read = huggingface.family(model_type).read
    assert read(huggingface.Config({"model_type": model_type})) == read(huggingface.Config(full))
