"""Tiny composites: the first tiny configuration of a text model's family, beside towers made tiny key by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import transformers

from anyformer.huggingface.composite_row import Composite
from anyformer.huggingface.composites import COMPOSITES, LATER
from huggingface.case import VOCAB, Case
from huggingface.cases import CASES

TEXTS: dict[str, Case] = {}
for _case in CASES:
    TEXTS.setdefault(_case.model_type, _case)
TRANSCRIBER = {
    "hidden_size": 32, "intermediate_size": 28, "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_act": "gelu",
    "max_position_embeddings": 40, "attention_dropout": 0.1,
}  # fmt: skip
INNER = [
    Case(
        "deepseek_ocr2_text",
        {
            "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "moe_intermediate_size": 12,
            "n_routed_experts": 6, "num_experts_per_tok": 2, "n_shared_experts": 1, "routed_scaling_factor": 1.7,
            "topk_method": "group_limited_greedy", "n_group": 3, "topk_group": 2, "mlp_layer_types": ["dense", "sparse"],
        },
    ),
    Case(
        "unlimited_ocr_text",
        {
            "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 4, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "moe_intermediate_size": 12,
            "n_routed_experts": 6, "num_experts_per_tok": 2, "n_shared_experts": 1, "routed_scaling_factor": 1.7,
            "mlp_layer_types": ["dense", "sparse"], "sliding_window": 32,
        },
    ),
    Case(
        "kosmos_2_text_model",
        {
            "embed_dim": 32, "layers": 2, "ffn_dim": 40, "attention_heads": 4, "max_position_embeddings": 64,
            "layer_norm_eps": 1e-3,
        },
        unpadded="transformers counts positions by its own padding id",
    ),
    Case(
        "kosmos_2_5_text_model",
        {"embed_dim": 32, "layers": 2, "ffn_dim": 40, "attention_heads": 4, "max_position_embeddings": 64},
        unpadded="transformers counts positions by its own padding id",
    ),
    Case(
        "muse_glimmer_text",
        {
            "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "sliding_window": 4,
            "post_norm_eps": 1e-2, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
        },
    ),
    Case(
        "muse_spark_text",
        {
            "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "sliding_window": 4,
            "post_norm_eps": 1e-2, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
            "moe_intermediate_size": 12, "num_local_experts": 6, "num_experts_per_tok": 2, "routed_scaling_factor": 1.7,
            "moe_hidden_size": 16, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
            "residual_gate_temperature": 0.8,
        },
    ),
    Case(
        "blip_text_model",
        {
            "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
            "max_position_embeddings": 24, "layer_norm_eps": 1e-3, "encoder_hidden_size": 32, "hidden_act": "relu",
            "is_decoder": True,
        },
    ),
    Case(
        "chameleon-text",
        {
            "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "swin_norm": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
        },
    ),
    Case(
        "mllama_text_model",
        {
            "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 5, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "dropout": 0.1, "pad_token_id": 0,
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}, "cross_attention_layers": [1, 3],
        },
    ),
    Case(
        "pix2struct_text_model",
        {
            "hidden_size": 32, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 4, "layer_norm_epsilon": 1e-3,
            "relative_attention_num_buckets": 6, "relative_attention_max_distance": 7, "dropout_rate": 0.2,
            "dense_act_fn": "silu",
        },
    ),
    Case(
        "step3p5",
        {
            "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-3,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
            "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "sliding_window": 4, "num_sliding_attention_heads": 6,
            "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "share_expert_dim": 16,
            "moe_router_scaling_factor": 1.7, "swiglu_limits": [0.0, 0.0, 0.3, 0.4],
            "swiglu_limits_shared": [0.2, None, 0.3, 0.0],
            "pad_token_id": 1,
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            },
        },
    ),
    Case(
        "trocr-text",
        {
            "d_model": 24, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 28, "vocab_size": VOCAB,
            "max_position_embeddings": 24, "scale_embedding": True, "activation_function": "relu",
        },
        unpadded="transformers counts positions from the first slot, padding included",
    ),
    Case(
        "pp_formulanet_text",
        {
            "d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 28, "vocab_size": VOCAB,
            "max_position_embeddings": 24, "activation_function": "relu",
        },
        unpadded="transformers counts positions from the first slot, padding included",
    ),
    *(
        Case(
            f"{name}_decoder",
            {
                "hidden_size": 32, "ffn_dim": 28, "num_hidden_layers": 2, "num_attention_heads": 4, "num_codebooks": 3,
                "activation_function": "relu", "dropout": 0.2, "activation_dropout": 0.1,
            },
            unpadded="transformers counts positions from the first slot, padding included",
        )
        for name in ("musicgen", "musicgen_melody")
    ),
    Case(
        "dia_decoder",
        {
            "hidden_size": 32, "intermediate_size": 28, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 6,
            "num_key_value_heads": 2, "num_channels": 9, "norm_eps": 1e-3, "hidden_act": "gelu", "cross_head_dim": 8,
            "cross_num_attention_heads": 4, "cross_num_key_value_heads": 4, "cross_hidden_size": 32,
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
        },
    ),
    Case("canary_decoder", {**TRANSCRIBER, "head_dim": 10, "num_key_value_heads": 2}),
    Case("cohere_asr-text", {**TRANSCRIBER, "head_dim": 10, "num_key_value_heads": 2, "tie_word_embeddings": True}),
    Case(
        "moonshine_streaming-text",
        {
            **TRANSCRIBER, "hidden_act": "gelu", "attention_bias": True, "num_key_value_heads": 4,
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.5},
        },
    ),
    Case(  # a table without a share turns whole heads, and no table four fifths of them
        "moonshine_streaming-text",
        {**TRANSCRIBER, "num_key_value_heads": 4, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}},
    ),
    Case(
        "speecht5-text",
        {
            "hidden_size": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 28, "vocab_size": VOCAB,
            "hidden_act": "relu", "layer_norm_eps": 1e-3, "scale_embedding": True, "pad_token_id": 3, "hidden_dropout": 0.2,
            "positional_dropout": 0.3, "activation_dropout": 0.4, "attention_dropout": 0.0, "encoder_layers": 2,
            "encoder_attention_heads": 4, "encoder_ffn_dim": 28, "conv_dim": [8, 8], "conv_stride": [4, 2],
            "conv_kernel": [4, 2], "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
            "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0,
        },
    ),
    Case(
        "voxtral_realtime_text",
        {
            "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "sliding_window": 6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 300.0},
        },
    ),
    Case(
        "moshi-text",
        {
            "hidden_size": 32, "ffn_dim": 80, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 64, "sliding_window": 64, "rms_norm_eps": 1e-3, "head_dim": 8,
        },
    ),
    Case(
        "idefics-text",
        {
            "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-3, "pad_token_id": 0, "additional_vocab_size": 2,
            "cross_layer_interval": 2, "alpha_type": "vector", "dropout": 0.1, "freeze_text_layers": False,
            "freeze_vision_layers": False,
        },
    ),
    Case(
        "kyutai-text",
        {
            "hidden_size": 32, "ffn_dim": 80, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 64, "sliding_window": 64, "rms_norm_eps": 1e-3, "head_dim": 8, "num_codebooks": 3,
            "codebook_vocab_size": 11, "audio_pad_token_id": VOCAB + 33, "audio_bos_token_id": 10,
        },
    ),
    Case(
        "longformer-text",
        {
            "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
            "max_position_embeddings": 40, "layer_norm_eps": 1e-3, "attention_window": [4, 4, 8], "pad_token_id": 1,
        },
    ),
    Case(
        "led-text",
        {
            "vocab_size": VOCAB, "d_model": 24, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_ffn_dim": 28, "max_encoder_position_embeddings": 32,
            "max_decoder_position_embeddings": 24, "attention_window": 4, "pad_token_id": 1,
        },
    ),
]  # fmt: skip
"""Tiny text models that no class of transformers loads alone."""
for _case in INNER:
    TEXTS[_case.model_type] = _case
HELD = tuple(name for name in COMPOSITES if name not in LATER)
"""The composites that transformers has a class for here."""
PLAIN = {
    "cosmos3_edge_text": "arcee",
    "emu3_text_model": "llama", "glm4v_text": "glm4", "glm_ocr_text": "glm4", "granite4_vision_text": "granite",
    "paddleocr_vl_text": "llama", "qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen2_5_omni_text": "qwen2",
    "hunyuan_vl_text": "hunyuan_v1_dense", "glm4v_moe_text": "glm4_moe", "granite_docling_text": "granite",
    "qwen3_omni_moe_text": "qwen3_moe", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe",
}  # fmt: skip
"""Type of a text model -> the type whose tiny configuration it takes."""
TINY: dict[str, Any] = {
    "activation_function": "gelu", "base_channels": 32, "channel_multiplier": [1], "codebook_size": 8, "depth": 2,
    "d_model": 32, "decoder_ffn_dim": 48, "depths": [1, 1], "dim": 32, "dim_embed": [32, 32], "embed_dim": 32,
    "encoder_attention_heads": 4, "encoder_ffn_dim": 48, "encoder_layers": 2, "feedforward_dim": 48, "ffn_dim": 48,
    "hidden_dim": 32, "hidden_size": 32, "hidden_stride": 2, "image_size": 28, "intermediate_size": 48, "mlp_dim": 48,
    "mlp_channel_dim": 32, "n_layers": 2, "num_attention_heads": 4, "num_embeddings": 8, "num_global_layers": 1,
    "num_groups": [4, 4], "num_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 4, "num_layers": 2,
    "num_patches": 4, "num_position_embeddings": 16, "out_hidden_size": 64, "output_channels": 32, "patch_size": 14,
    "projection_dim": 32, "projector_hidden_size": 32, "projector_input_dim": 32, "projector_output_dim": 32,
    "vision_output_dim": 32, "vocab_size": 53, "visual_vocab_size": 32, "width": 32,
}  # fmt: skip
"""Key of a tower -> its tiny value."""
SIGLIP = {"model_type": "siglip_vision_model", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
          "num_attention_heads": 4, "image_size": 28, "patch_size": 14}  # fmt: skip
SECTIONS = {"rope_type": "default", "rope_theta": 300.0, "mrope_section": [1, 1, 2]}
"""Sections of positions in images, for heads of 8 features."""
SECTIONED: dict[str, dict[str, Any]] = {
    name: {"rope_parameters": SECTIONS}
    for name in ("qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text", "glm4v_text", "glm_ocr_text")
}
OWN: Mapping[str, dict[str, Any]] = {
    **SECTIONED,
    "cosmos3_edge_text": {"head_dim": 8, "rope_parameters": SECTIONS, "mlp_bias": False},
    "emu3_text_model": {"pad_token_id": 0},
    "granite_docling_text": {"pad_token_id": 0},
    "glm4v_text": {"rope_parameters": {**SECTIONS, "mrope_section": [1, 1], "partial_rotary_factor": 0.5}},
    "paddleocr_vl_text": {"head_dim": 8, "rope_parameters": SECTIONS},
    "qwen3_vl_text": {"head_dim": 8, "rope_parameters": {**SECTIONS, "mrope_interleaved": True}},
    "hunyuan_vl_text": {"head_dim": 8, "rope_parameters": {**SECTIONS, "mrope_section": [1, 1, 1, 1]}},
    "glm4v_moe_text": {
        "use_qk_norm": False,
        "rope_parameters": {**SECTIONS, "mrope_section": [1, 1], "partial_rotary_factor": 0.5},
    },
    "qwen3_omni_moe_text": {"head_dim": 8, "rope_parameters": {**SECTIONS, "mrope_interleaved": True}},
    "qwen3_vl_moe_text": {"head_dim": 8, "rope_parameters": {**SECTIONS, "mrope_interleaved": True}},
}
"""Type of a text model -> what its tiny configuration has besides."""
VQ = {
    "embed_dim": 8,
    "num_embeddings": 8,
    "base_channels": 32,
    "channel_multiplier": [1],
    "num_res_blocks": 1,
    "resolution": 16,
}
MIMI = {
    "model_type": "mimi",
    "hidden_size": 32,
    "num_filters": 4,
    "codebook_size": 8,
    "codebook_dim": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 16,
    "num_quantizers": 3,
    "upsample_groups": 32,
    "vector_quantization_hidden_dimension": 8,
    "upsampling_ratios": [2, 2],
}
MUSIC = {
    "text_encoder": {"model_type": "t5", "d_model": 16, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 9},
    "audio_encoder": {
        "model_type": "encodec", "num_filters": 4, "hidden_size": 8, "codebook_dim": 8, "codebook_size": 8,
        "upsampling_ratios": [2, 2], "num_lstm_layers": 1,
    },
}  # fmt: skip
SMALL_SPEECH = {
    "t2u_encoder_layers": 1, "t2u_decoder_layers": 1, "t2u_encoder_ffn_dim": 16, "t2u_decoder_ffn_dim": 16,
    "t2u_encoder_attention_heads": 2, "t2u_decoder_attention_heads": 2, "t2u_vocab_size": 20, "speech_encoder_layers": 1,
    "speech_encoder_attention_heads": 2, "speech_encoder_intermediate_size": 16, "char_vocab_size": 12,
    "num_conv_pos_embedding_groups": 2, "upsample_initial_channel": 32, "unit_embed_dim": 16, "unit_hifi_gan_vocab_size": 16,
    "lang_embed_dim": 8, "spkr_embed_dim": 8, "t2u_variance_predictor_embed_dim": 24,
}  # fmt: skip
TOWERS: Mapping[str, dict[str, Any]] = {
    "fast_vlm": {"vision_config": SIGLIP},  # theirs needs timm
    "perception_lm": {"vision_config": {**SIGLIP, "model_args": {"embed_dim": 32}}},
    "luke": {"entity_vocab_size": 8},
    **{name: {"projector_hidden_size": 64} for name in ("muse_glimmer", "nemotron_h_omni")},
    **{
        name: {
            "vision_config": {
                "model_type": "inkling2_vision",
                "hidden_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "patch_size": 4,
                "posemb_grid_size": 4,
                "projection_hidden_dim": 16,
                "text_hidden_size": 24,
            }
        }
        for name in ("inkling2", "inkling2_loop")
    },
    "emu3": {"vocabulary_map": {"<image>": 5, "<|extra_200|>": 6}},
    "florence2": {
        "vision_config": {
            "model_type": "florence_vision",
            "depths": [1],
            "patch_size": [7],
            "patch_stride": [4],
            "patch_padding": [3],
            "patch_prenorm": [False],
            "embed_dim": [32],
            "num_heads": [4],
            "num_groups": [4],
            "window_size": 4,
            "projection_dim": 32,
        }
    },
    "gemma3n": {
        "vision_config": {"hidden_size": 32, "vocab_size": 4, "vocab_offset": 53},
        "audio_config": {
            "model_type": "gemma3n_audio",
            "vocab_size": 4,
            "vocab_offset": 57,
            "hidden_size": 32,
            "conf_num_attention_heads": 4,
            "conf_num_hidden_layers": 1,
        },
    },
    "gemma4": {
        "vision_config": {
            "model_type": "gemma4_vision",
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "head_dim": 8,
            "position_embedding_size": 16,
            "patch_size": 4,
        },
    },
    "gemma4_unified": {
        "vision_config": {
            "model_type": "gemma4_unified_vision",
            "patch_size": 4,
            "pooling_kernel_size": 2,
            "mm_embed_dim": 32,
            "mm_posemb_size": 8,
            "output_proj_dims": 32,
        },
        "audio_config": {"model_type": "gemma4_unified_audio", "audio_embed_dim": 16},
    },
    "nemo_speechlm": {
        "word_timestamp_config": {"blank_token_id": 52},
        "audio_config": {
            "diarization_config": {
                "audio_config": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4},
                "head_config": {"hidden_size": 32, "audio_hidden_size": 32},
            }
        },
    },
    "dots3_note": {
        "vision_config": {
            "model_type": "dots3_note_vision_encoder",
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "mlp_layer_types": ["dense", "sparse"],
            "moe_intermediate_size": 16,
            "num_local_experts": 4,
            "adapter_in_dim": 32,
            "adapter_out_dim": 32,
        },
        "audio_config": {
            "model_type": "dots3_note_audio_encoder",
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "feature_size": 16,
            "downsample_hidden_size": 8,
            "adapter_input_size": 32,
            "adapter_out_dim": 32,
        },
    },
    "fun_asr_nano": {"adaptor_config": {"hidden_size": 32, "intermediate_size": 8, "num_attention_heads": 4}},
    "granite4_vision": {
        "vision_config": {**SIGLIP, "hidden_size": 64},
        "downsample_rate": "1/2",
        "deepstack_layer_map": [[-1, 0]],
        "spatial_target_layers": [0, 1],
    },
    "qwen3_omni_moe": {"enable_audio_output": False},
    "qwen2_5_omni": {"enable_audio_output": False},
    **{name: {"pad_token_id": 0} for name in ("idefics3", "qwen3_asr", "smolvlm")},
    "granite_docling": {"pad_token_id": 0, "vision_config": {"out_hidden_size": 32}},
    "vibevoice": {
        "pad_token_id": 0,
        "audio_config": {"depths": [1, 1], "downsampling_ratios": [2], "num_filters": 4, "hidden_size": 8},
        "semantic_model_config": {"depths": [1, 1], "downsampling_ratios": [2], "num_filters": 4, "hidden_size": 8},
    },
    "canary": {"vocab_size": VOCAB},
    "musicgen": MUSIC,
    "musicgen_melody": MUSIC,
    "chameleon": {"vocabulary_map": {"<image>": 5}, "vq_config": VQ},
    "muse_spark": {
        "projector_hidden_size": 64,
        "audio_config": {
            "model_type": "muse_spark_audio",
            "patch_sizes": [2, 2],
            "hidden_sizes": [8, 8],
            "depths": [1, 1],
            "num_hidden_layers": 2,
            "out_hidden_size": 32,
        },
    },
    "mllama": {"vision_config": {"intermediate_layers_indices": [0], "vision_output_dim": 64}},
    "molmo2": {
        "vision_config": {"head_dim": 8, "image_default_input_size": [28, 28]},
        "adapter_config": {"head_dim": 8, "vision_feature_layer": [0, 1], "text_hidden_size": 32},
    },
    "moshi": {"num_codebooks": 2, "audio_vocab_size": 11, "audio_encoder_config": MIMI},
    "kyutai_speech_to_text": {"codec_config": MIMI},
    **{name: {**SMALL_SPEECH, "hidden_size": 24} for name in ("seamless_m4t", "seamless_m4t_v2")},
    "vibevoice_asr": {
        f"{kind}_tokenizer_encoder_config": {"depths": [1, 1], "downsampling_ratios": [2], "num_filters": 4, "hidden_size": 8}
        for kind in ("acoustic", "semantic")
    },
}
"""Composite -> keys of its towers that are not tiny otherwise."""


def text(model_type: str) -> dict[str, Any]:
    """The tiny configuration of a text model's type."""
    config = TEXTS[PLAIN.get(model_type, model_type)].config
    return {"vocab_size": VOCAB, **config, **OWN.get(model_type, {}), "model_type": model_type}


def tiny(table: Mapping[str, Any]) -> dict[str, Any]:
    """A tower's table with every size that `TINY` names, in tables within it too."""
    return {
        key: tiny(value) if isinstance(value, dict) else TINY[key] if type(value) is type(TINY.get(key, ...)) else value
        for key, value in table.items()
        if key != "layer_types"
    }


def config_of(model_type: str) -> dict[str, Any]:
    """The tiny configuration of a composite."""
    whole, composite = transformers.CONFIG_MAPPING[model_type]().to_dict(), COMPOSITES[model_type]
    nested = composite.path[0] in whole
    filled = _filled(whole, composite.path) if nested else {**towers(whole), **beside_towers(composite)}
    for key, value in TOWERS.get(model_type, {}).items():
        adds = isinstance(value, dict) and "model_type" not in value and key in filled
        filled[key] = {**filled[key], **value} if adds else value
    return filled


def _filled(table: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The tables in a table: down `path` the text model's, the others as towers."""
    filled = towers(table)
    first, *rest = path
    own = table[first]
    filled[first] = _filled(own, tuple(rest)) | {"model_type": own["model_type"]} if rest else text(own["model_type"])
    return filled


def towers(table: Mapping[str, Any]) -> dict[str, Any]:
    """The tables in a table, made tiny."""
    return {key: tiny(value) for key, value in table.items() if key.endswith("_config") and isinstance(value, dict)}


def beside_towers(composite: Composite) -> dict[str, Any]:
    """The tiny keys of a text model that stand beside its composite's own."""
    return {key: value for key, value in text(composite.text).items() if key != "model_type"}


@cache
def case_of(model_type: str) -> Case:
    """The case of a composite: that of its text model."""
    composite = COMPOSITES[model_type]
    of = TEXTS[PLAIN.get(composite.text, composite.text)]
    return replace(of, model_type=model_type, config=config_of(model_type), task=composite.default_class, name="composite")
