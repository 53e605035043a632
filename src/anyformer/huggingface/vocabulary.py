"""The vocabulary of configurations: the kind of value of every key that some family reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.dims import LARGEST
from anyformer.parts.layers.order import MOST_LAYERS

DEEPEST = MOST_LAYERS
"""The most layers of a stack that is read."""
_GREATEST = 1e30
"""Numbers beyond it overflow float32 in the next product."""


@dataclass(frozen=True)
class ValueKind:
    """A kind of value: its description for errors, and its test."""

    words: str
    fits: Callable[[Any], bool]

    def __or__(self, other: ValueKind) -> ValueKind:
        return ValueKind(f"{self.words}, or {other.words}", lambda value: self.fits(value) or other.fits(value))


def _whole(low: int, high: int = LARGEST) -> ValueKind:
    """Whole numbers, of which JSON's `true` and `2.0` are none."""
    return ValueKind(f"a whole number from {low} to {high}", lambda value: type(value) is int and low <= value <= high)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _GREATEST and math.isfinite(value)


def _list_of(kind: ValueKind, words: str) -> ValueKind:
    """Lists of a kind, at most as long as a stack may have layers."""
    return ValueKind(
        f"a list of {words}",
        lambda value: isinstance(value, list | tuple) and len(value) <= MOST_LAYERS and all(map(kind.fits, value)),
    )


LAYERS = _whole(1, MOST_LAYERS)
LAYER = _whole(-MOST_LAYERS, MOST_LAYERS)
SIZE = _whole(1)
WHOLE = _whole(0)
INTEGER = _whole(-1)
NUMBER = ValueKind(f"a number, finite and at most {_GREATEST:g}", _is_number)
POSITIVE = ValueKind(f"a number above 0 and at most {_GREATEST:g}", lambda value: _is_number(value) and value > 0)
FLAG = ValueKind("true or false", lambda value: type(value) is bool)
NAME = ValueKind("a string", lambda value: type(value) is str)
NAMES = _list_of(NAME, "strings")
SIZES = _list_of(SIZE, "whole numbers from 1")
INTEGERS = _list_of(INTEGER, "whole numbers")
NUMBERS = _list_of(NUMBER, "numbers")
GRIDS = ValueKind(
    "a list of [height, width] in pixels",
    lambda value: (
        isinstance(value, list | tuple)
        and len(value) <= MOST_LAYERS
        and all(SIZES.fits(grid) and len(grid) == 2 for grid in value)
    ),
)
TABLES = _list_of(ValueKind("a table", lambda value: isinstance(value, Mapping)), "tables")
TABLE = ValueKind("a table of keys", lambda value: isinstance(value, Mapping) and all(map(NAME.fits, value)))
MAPPING = ValueKind("a table", lambda value: isinstance(value, Mapping))
LIMITS = ValueKind(
    "a list of a least and a largest number",
    lambda value: (
        isinstance(value, list | tuple)
        and len(value) == 2
        and _is_number(value[0])
        and (_is_number(value[1]) or value[1] in (math.inf, {"__float__": "Infinity"}))
    ),
)
RUNS = ValueKind(
    "a list of [list of strings, whole number]",
    lambda value: (
        isinstance(value, list | tuple)
        and all(isinstance(run, list | tuple) and len(run) == 2 for run in value)
        and all(NAMES.fits(names) and LAYERS.fits(times) for names, times in value)
    ),
)

_KEYS: tuple[tuple[ValueKind, str], ...] = (
    (
        LAYERS,
        """decoder_layers decoder_num_hidden_layers depth encoder_layers encoder_num_hidden_layers
        H_cycles inner_group_num L_cycles layers n_layer n_layers num_conv_layers
        num_decoder_layers num_feat_extract_layers num_hidden_layers num_layers num_layers_per_stack n_recurrent_layers
        n_recurrent_loops loop_layer_index_start loop_layer_index_end loop_num_passes""",
    ),
    (
        SIZE,
        """adapter_rank altup_num_inputs attention_chunk_size attention_head_dim attention_head_size attention_heads
        attention_hidden_size gated_norm_rank shared_experts_intermediate_size swa_kv_lora_rank swa_q_lora_rank
        swa_qk_nope_head_dim swa_qk_rope_head_dim compress_rate_csa compress_rate_hca adapter_reduction_factor
        attention_window_size attn_layer_period block_ff_dim block_multiple_of classifier_proj_size context_length conv1d_width
        conv_L_cache conv_pos_kernel_size
        conv_channels cross_attention_hidden_size d_ff d_head d_inner d_kv d_model decoder_attention_heads
        decoder_ffn_dim decoder_vocab_size dense_intermediate_size dff dim dim_model_base emb_dim embed_dim embedding_size
        encoder_attention_heads decoder_num_attention_heads
        decoder_num_key_value_heads encoder_ffn_dim encoder_num_attention_heads encoder_num_key_value_heads
        expand expansion_ratio expert_capacity expert_ffn_hidden_size
        expert_layer_period experts_per_token ff_factor ffn_dim ffn_hidden_size ffn_round_up_to_multiple_of floor_scale
        full_attention_interval full_attn_mod global_attn_every_n_layers global_head_dim head_dim head_ratio hidden_dim
        hash_code_len hc_count hc_lowrank hc_mult hc_sinkhorn_iters hidden_size image_size in_channels index_block_size
        index_head_dim index_n_heads index_topk index_topk_blocks indexer_budget indexer_compress_ratio indexer_head_dim
        indexer_kv_heads indexer_n_heads keep_window_size index_topk_freq input_channels input_embedding_size
        input_feat_per_channel interleave_moe_layer_step intermediate_groups intermediate_multiple_size intermediate_size
        intermediate_size_mlp interpolate_factor
        intra_bottleneck_size k_groups kv_channels kv_lora_rank kv_n_heads laurel_rank layer_group_size layer_switch
        linear_conv_kernel_dim linear_head_dim linear_key_head_dim linear_num_heads linear_num_key_heads
        linear_num_value_heads linear_value_head_dim local_attention local_radius lru_width mamba_d_conv mamba_d_ssm
        mamba_d_state mamba_expand mamba_head_dim mamba_n_groups mamba_n_heads mamba_ngroups mamba_num_heads
        max_decoder_position_embeddings max_encoder_position_embeddings max_pixels max_position_embeddings
        max_2d_position_embeddings max_depth max_xpath_subs_unit_embeddings max_xpath_tag_unit_embeddings xpath_unit_hidden_size
        max_seq_len max_source_positions max_target_positions merge_size min_pixels mlp_ratio mm_tokens_per_image
        model_max_length moe_intermediate_size
        moe_hidden_size d_rel rel_extent log_scaling_n_floor unpadded_vocab_size n_layers_per_attn_res_block loop_gate_rank
        moe_k moe_latent_size moe_layer_interval moe_shared_expert_intermediate_size moe_top_k moe_topk n_embd n_embed
        n_group n_groups n_head n_heads n_inner n_langs n_mamba_heads n_positions n_words num_attention_heads num_channels
        num_conv_pos_embedding_groups num_conv_pos_embeddings
        num_expert_group num_expert_groups num_experts_per_tok num_experts_per_token num_feedforward_networks
        num_global_key_value_heads num_groups num_heads num_hidden_groups num_key_value_heads num_kv_heads num_landmarks
        num_limited_groups num_mel_bins num_mem_blocks num_sliding_attention_heads original_max_position_embeddings
        o_groups o_lora_rank out_hidden_size output_embedding_size output_groups output_vocab_size patch_size pooler_hidden_size
        post_attention_groups projection_dim projection_size
        pronunciation_embed_dim pronunciation_vocab_size shape_embed_dim shape_vocab_size
        prediction_head_size prefix_dense_intermediate_size q_groups qk_head_dim qk_nope_head_dim qk_rope_head_dim
        relative_attention_max_distance relative_attention_num_buckets segment_means_seq_len seq_length
        short_conv_kernel_size sliding_window_size spatial_merge_size src_vocab_size ssm_state_size state_size swa_head_dim
        swa_num_attention_heads swa_num_key_value_heads swa_v_head_dim temporal_patch_size tgt_vocab_size top_k_experts
        topk_group v_groups v_head_dim vocab_size vocab_size_per_layer_input window_size word_embed_proj_dim
        audio_pad_token_id codebook_vocab_size cross_layer_interval num_codebooks q_head_dim
        alignment_intermediate_size downsample_factor num_patches num_position_embeddings projector_hidden_size
        projector_input_dim projector_output_dim scale_factor vision_output_dim""",
    ),
    (
        WHOLE,
        """additional_vocab_size alibi_bias_max altup_active_idx attn_layer_offset conv_kernel_size decoder_sparse_step
        encoder_sparse_step subs_pad_id tag_pad_id n_input_layers n_output_layers
        expert_layer_offset first_k_dense_replace hidden_size_per_layer_input image_token_id image_token_index
        index_local_blocks index_skip_topk_offset max_window_layers moe_layer_num_skipped moe_layer_start_index
        moe_num_experts moe_num_shared_experts mtp_num_hidden_layers n_routed_experts n_shared_experts no_rope_layer_interval
        num_dense_layers num_experts num_kv_shared_layers num_labels num_ln_in_parallel_attn num_hash_layers num_local_experts
        num_nextn_predict_layers num_register_tokens num_shared_expert num_shared_experts num_sparse_decoder_layers
        num_sparse_encoder_layers
        prefix_dense_sliding_window_pattern q_lora_rank resample rescale_every rotary_dim share_expert_dim
        shared_expert_intermediate_size shared_intermediate_size sliding_window type_vocab_size zero_expert_num
        audio_token_id audio_token_index""",
    ),
    (
        INTEGER,
        """adapter_attn_dim clamp_len mask_token_id max_relative_positions moe_layer_end_index pad_token_id position_buckets""",
    ),
    (
        POSITIVE,
        """alpha beta_fast beta_slow compress_rope_theta embed_init_std embedding_scale factor global_rope_theta hc_eps
        hc_magnitude high_freq_factor local_rope_theta
        residual_gate_temperature ngpt_alpha_init log_scaling_alpha
        logits_scaling low_freq_factor pixel_shuffle_ratio query_pre_attn_scalar rope_local_base_freq rope_theta rotary_emb_base
        scale_depth qk_l2_clip_threshold rel_l2_clip_threshold mlp_gate_softcap mlp_up_softcap swa_rope_theta""",
    ),
    (
        NUMBER,
        """activation_dropout attention_dropout attention_factor attention_in_multiplier attention_multiplier
        attention_out_multiplier attention_probs_dropout_prob attention_value_scale attn_dropout_prob attn_logit_softcapping
        attn_pdrop attn_scale block_ffn_dim_multiplier clip_qkv drop_path_rate dropout dropout_rate emb_dropout_prob
        embd_pdrop embed_dropout embedding_dropout embedding_fraction embedding_initializer_range embedding_multiplier eps
        decoder_layerdrop
        ffn_proj_factor final_logit_softcapping full_attn_alpha_factor full_attn_beta_factor gate_soft_cap hidden_dropout
        hidden_dropout_prob init_std initializer_cutoff_factor initializer_factor initializer_range kda_lower_bound
        key_multiplier layer_norm_eps layer_norm_epsilon layerdrop layernorm_epsilon layernorm_full_attention_beta
        layernorm_linear_attention_beta layernorm_mlp_beta layerscale_value linear_attn_alpha_factor linear_attn_beta_factor
        lm_head_multiplier logit_scale logit_scale_init_value logits_soft_cap mixer_rms_eps mlp_alpha_factor mlp_beta_factor
        mlp_dropout moe_eval_capacity_token_fraction moe_token_dropout
        moe_jitter_eps moe_norm_min moe_normalize_expert_weights moe_routed_scaling_factor moe_router_logit_softcapping
        moe_router_scaling_factor mscale mscale_all_dim norm_eps norm_epsilon output_dropout output_logit_soft_cap
        output_multiplier partial_rotary_factor positional_dropout post_norm_eps qk_dim_factor
        qk_scale_factor rescale_factor resid_dropout
        resid_pdrop residual_dropout residual_multiplier rms_norm_eps rotary_pct route_scale routed_scaling_factor
        router_jitter_noise router_scaling_factor scale_emb softmax_scale ssm_in_multiplier ssm_out_multiplier swiglu_alpha
        swiglu_limit time_step_min v_dim_factor
        adapter_layer_norm_eps
        downsample_ratio layer_scale_init_value projector_layernorm_eps""",
    ),
    (
        FLAG,
        """_remove_final_layer_norm add_bias_linear add_classification_head add_cross_attention add_full_attention_sink_bias
        add_swa_attention_sink_bias alibi altup_correct_scale apply_residual_connection_post_layernorm asm attention_bias
        attention_k_eq_v attention_out_bias attn_temperature_tuning attn_uses_sequence_id bi_data bias block_auto_adjust_ff_dim
        block_use_swiglu causal classifier_bias conv_bias conv_pos_batch_norm
        decoder_bias crop_to_patches do_center_crop do_layer_norm_before do_pad
        do_pan_and_scan do_resize do_stable_layer_norm
        emb_layer_norm_before enable_bias enable_moe_block feat_proj_layer_norm
        gelu_activation group_limited_greedy
        is_causal is_decoder is_encoder is_encoder_decoder is_folding_model is_gated_act is_moe kda_safe_gate key_bias
        key_query_shared_bottleneck
        layer_norm_elementwise_affine layernorm_embedding learned_embeddings legacy linear_allow_neg_eigval lm_head_bias
        mamba_conv_bias mamba_norm_before_gate mamba_proj_bias mamba_rms_norm mla_use_nope mlp_bias
        moe_apply_router_weight_on_input moe_renormalize moe_router_enable_expert_bias mrope_interleaved multi_query
        multimodal_projector_bias mup_enabled new_decoder_architecture no_bias norm_after norm_bias norm_topk_prob
        parallel_attn position_biased_input position_embedding_xdrope post_norm pre_norm prefix_lm proj_bias
        projectors_bias query_bias value_bias
        qk_layernorm qk_ln qk_norm qkv_bias quant_mode relative_attention rescale_embeddings reset_position_index_per_cell
        rope_interleave rotary
        rotary_value route_norm router_bias same_length scale_attn_by_inverse_layer_idx scale_attn_weights
        scale_decoder_outputs scale_embedding scale_embeddings scale_sqrt_depth share_att_key
        share_encoder_decoder_embeddings share_inout_emb swin_norm talking_head tie_embedding tie_encoder_decoder
        tie_word_embeddings token_dropout truncate untie_r use_attention_gate use_bias use_cla use_conv_bias use_dsa
        use_double_wide_mlp use_dynamic_ntk use_embedding_sharing use_expert_bias use_gated_activation use_gated_mlp
        use_lang_emb
        use_learned_position_embeddings use_logn_attn use_long_context use_mem_rope use_mixed_mlp_moe use_mla use_mrope
        use_expectation use_parallel_block use_parallel_residual use_pos_enc use_post_norm use_prompt use_qk_norm use_qkv_bias
        use_rotary_pos_emb use_routing_bias use_sandwich_norm use_shared_attention_adapter use_sliding_window use_swiglu_ffn
        use_task_id use_tpu_fourier_optimizations vision_use_head
        projector_bias projector_use_layernorm
        use_absolute_position_embeddings use_mean_pooling adapter_layer_norm adapter_reuse_layer_norm ln_before_adapter""",
    ),
    (
        NAME,
        """activation activation_function afn attention_type attn_type default_language second_expert_policy
        decoder_hidden_act encoder_hidden_act classifier_activation classifier_pooling dense_act_fn
        dtype encoder_attention_type expert_selection_fn feat_extract_activation feat_extract_norm
        feature_extractor_type feed_forward_proj ff_activation hidden_act
        hidden_activation hidden_mamba_act hybrid_override_pattern image_processor_type inference_state_dtype
        mamba_hidden_act mlp_hidden_act alpha_type recurrent_kv_cache_mode
        mlp_type model_type moe_router_activation_func name norm_rel_ebd norm_type normalization_function normalization_type
        order_of_interleaved_layers output_gate_type pe_type pooler_hidden_act
        position_embedding_type projector_hidden_act qk_norm_type
        rope_type router_dtype score_func score_function scoring_func shared_expert_combination_strategy topk_method
        torch_dtype type vision_aspect_ratio vision_feature_select_strategy weight_mode""",
    ),
    (
        NAMES,
        """anyformer_plugins architectures attention_layers block_types indexer_types languages layer_types layers_block_type
        mlp_layer_types""",
    ),
    (NAMES | NAME, """index_topk_pattern pos_att_type"""),
    (FLAG | NAME, """gating use_bidirectional_attention"""),
    (WHOLE | NAME, """mamba_d_head mamba_dt_rank time_step_rank sliding_window_pattern"""),
    (
        INTEGERS,
        """attn_layer_indices attn_type_list compress_ratios conv_dim conv_kernel_sizes conv_stride full_attn_idxs
        full_attn_layers cross_attention_layers
        fullatt_block_indexes
        hybrid_layer_pattern kda_layers L_bp_cycles mlp_only_layers moe_layers mrope_section no_rope_layers
        ple_layer_ids num_attention_heads_per_layer rope_scaling_layers
        deepstack_visual_indexes""",
    ),
    (WHOLE | INTEGERS, """moe_layer_freq moe_topk"""),
    (SIZE | INTEGERS, """attention_window conv_kernel"""),
    (SIZES, """type_vocab_sizes"""),
    (SIZE | MAPPING, """crop_size size"""),
    (
        NUMBERS,
        """activation_sparsity_pattern image_mean image_std layer_rope_theta long_factor mlp_multipliers short_factor
        ssm_multipliers""",
    ),
    (RUNS, """attention_types"""),
    (LIMITS, """time_step_limit"""),
    (
        TABLE,
        """attn_config decoder encoder ffn_act_fn ffn_config full_attention linear_attn_config per_layer_config
        loop_config rope_parameters rope_scaling sliding_attention""",
    ),
    (LAYER | _list_of(LAYER, "numbers of layers"), """vision_feature_layer"""),
    (GRIDS, """image_grid_pinpoints"""),
    (TABLES, """block_configs"""),
    (
        MAPPING,
        """architecture compress_rates compression_config id2label quantization_config sparse_attention_config vision_config
        audio_config""",
    ),
)
_NULL = """attention_multiplier attn_logit_softcapping clip_qkv dim_model_base final_logit_softcapping head_dim mamba_d_ssm
        moe_normalize_expert_weights num_key_value_heads q_lora_rank scale_depth sliding_window"""
NULL = frozenset(_NULL.split())
"""Keys whose null and whose absence differ in some family."""

KINDS: Mapping[str, ValueKind] = {name: kind for kind, names in _KEYS for name in names.split()}
"""Key -> the kind of its value, in the configuration and in its tables alike."""


def misfits(name: str, value: Any, kind: ValueKind | None = None, path: str = "") -> Iterator[tuple[str, Any, ValueKind]]:
    """(path, value, kind expected) of a key, and of the known keys in its table, where the value does not fit; null fits.

    `kind`: replaces that of the vocabulary.
    """
    kind = kind or KINDS.get(name)
    if value is not None and kind is not None and not kind.fits(value):
        yield f"{path}{name}", value, kind
    elif kind in (None, TABLE) and isinstance(value, Mapping):
        for inner, item in value.items():
            yield from misfits(inner, item, path=f"{path}{name}.")
