"""The composites: model types of which a text model is one part, beside towers for images and sound that are left aside.

Sources: the configuration classes of transformers 5.23 (keys, defaults, ties), the names of published files, and the
computation of the text models, which tests/huggingface/test_composites.py holds against ours.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyformer.huggingface.composite_row import Composite
from anyformer.huggingface.composite_texts import sized
from anyformer.huggingface.sound_alone import SOUND_ALONE
from anyformer.huggingface.text_alone import TEXT_ALONE

_COSMOS: Mapping[str, str] = {
    r"layers\.(\d+)\.self_attn\.(?:to_)?(q|k|v)(?:_proj)?\.(.*)": r"model.layers.\1.self_attn.\2_proj.\3",
    r"layers\.(\d+)\.self_attn\.(?:to_out|o_proj)\.(.*)": r"model.layers.\1.self_attn.o_proj.\2",
    r"layers\.(\d+)\.self_attn\.norm_(q|k)\.(.*)": r"model.layers.\1.self_attn.\2_norm.\3",
    r"(layers\.\d+\.(?:input_layernorm|post_attention_layernorm|mlp\.\w+_proj)\..*)": r"model.\1",
    r"((?:embed_tokens|norm)\..*)": r"model.\1",
}
"""Names of Cosmos 3's reasoner, without a prefix, beside those of a generator in the same layers and of towers."""

_OUTSIDE = """
    _pad_token_id acoustic_tokenizer_chunk_size adapter_layer_norm_eps adaptor_intermediate_size
    alignment_intermediate_size assistant_token_id audio_bos_token_id audio_chunk_size audio_end_token_id
    audio_eos_token_id audio_frame_step audio_length_per_tok audio_merge_size audio_start_token_id audio_token_id
    audio_token_index boa_token_id boi_token_id boi_token_index deepstack_layer_map
    density_router_hidden_size density_router_loss_weight density_router_threshold downsample_factor downsample_mode
    downsample_rate downsample_ratio drop_vision_last_layer embedding_dim enable_audio_output eoa_token_id
    eoa_token_index eoi_token_id eoi_token_index force_image_size has_lora_adapter ignore_index im_end_token_id
    im_start_token_id image_break_token_id image_end_id image_end_token_id image_grid_pinpoints image_newline_token_id
    image_seq_length image_start_id image_start_token_id image_text_hidden_size image_token_id image_token_index
    img_context_token_id insert_layer_id latent_query_num max_value_projector_patch_to_query_dict
    media_placeholder_token_id merge_kernel_size merged_hidden_size merger_times mm_tokens_per_image
    multimodal_projector_bias newline_id num_query_tokens out_hidden_size perceiver_hidden_size pixel_shuffle_factor
    position_id_per_seconds projection_dim projection_hidden_size projection_layer_norm_eps projector_bias
    projector_dropout projector_hidden_act projector_hidden_size projector_layernorm_eps projector_patch_to_query_dict
    projector_pooling_ratio projector_use_layernorm scale_factor seconds_per_chunk slice_end_id slice_start_id
    sound_context_token_id spatial_merge_size spatial_pool_mode spatial_pool_stride spatial_target_layers
    spatial_vision_layer system_token_id timestamp_token_id token_classification_bias tts_bos_token_id tts_eos_token_id
    tts_pad_token_id use_decoder_only_language_model use_image_newline_parameter use_unified_vision_chunk user_token_id
    video_context_token_id video_end_token_id video_grid_pinpoints video_placeholder video_pruning_rate video_seq_length
    video_start_token_id video_temporal_patch_size video_token_id video_token_index vision_aspect_ratio
    vision_end_token_id vision_feature_layer vision_feature_select_strategy vision_hidden_size
    vision_soft_tokens_per_image vision_start_token_id vision_token_id vision_use_cls_token visual_indicator_token_ids
    vit_hidden_size vocabulary_map
"""
OUTSIDE = tuple(_OUTSIDE.split())
"""Keys of composites that say how images and sound become embeddings, as every `..._config` does; none changes text."""
BESIDE = (
    "classifier_bias", "classifier_pooling", "head_dim", "hidden_size", "image_size", "initializer_cutoff_factor",
    "initializer_factor", "norm_eps", "num_channels",
    "patch_size", "rope_parameters", "tie_word_embeddings", "vocab_size", "window_size",
)  # fmt: skip
"""Keys of a composite that mean nothing of text where the text model has a table of its own."""

# The classes of transformers 5.23 multiply the last features by the head's matrix alone, whatever the text model's class does.
_INKLING = {r"(model\.llm\..*)": r"\1"}
_UNSCALED, _UNCAPPED, _UNBIASED = {"head.scale": 1.0}, {"head.softcap": None}, {"head.bias": False}
_GLM_ASR = sized(2048, 28, 16, 6144, 59_264, num_key_value_heads=4, rms_norm_eps=1e-5)
_VOXTRAL = sized(
    3072, 30, 32, 8192, 131_072, num_key_value_heads=8, rms_norm_eps=1e-5, rope_theta=100_000_000.0, head_dim=128,
)  # fmt: skip
_REALTIME = sized(
    3072, 26, 32, 9216, 131_072, num_key_value_heads=8, rms_norm_eps=1e-5, rope_theta=1e6, head_dim=128, sliding_window=8192,
)  # fmt: skip
_OMNI_ASR = sized(4096, 12, 8, 2816, 11_984, num_key_value_heads=8, max_position_embeddings=8192, rms_norm_eps=1e-5)
_THINKER = ("thinker_config", "text_config")
_ROWS: tuple[Composite, ...] = (
    # Text models with the names and the types of plain ones.
    Composite("audioflamingo3", "AudioFlamingo3ForConditionalGeneration", "qwen2"),
    Composite("aria", "AriaForConditionalGeneration", "aria_text", False),
    Composite("aya_vision", "AyaVisionForConditionalGeneration", "cohere2", True, changes=_UNSCALED),
    Composite("blip-2", "Blip2ForConditionalGeneration", "opt"),
    Composite("cohere_compass", "CohereCompassForConditionalGeneration", "cohere_compass_text", False),
    Composite("cohere2_vision", "Cohere2VisionForConditionalGeneration", "cohere2", True, changes=_UNSCALED),
    Composite("deepseek_ocr2", "DeepseekOcr2ForConditionalGeneration", "deepseek_ocr2_text", False),
    Composite("deepseek_vl", "DeepseekVLForConditionalGeneration", "llama", True),
    Composite("deepseek_vl_hybrid", "DeepseekVLHybridForConditionalGeneration", "llama", True),
    Composite("dots3_note", "Dots3NoteForConditionalGeneration", "dots3_note_text", False, flat=True),
    Composite("exaone4_5", "Exaone4_5_ForConditionalGeneration", "exaone4", False),
    Composite("fast_vlm", "FastVlmForConditionalGeneration", "qwen2"),
    Composite("florence2", "Florence2ForConditionalGeneration", "bart", True, changes=_UNBIASED),
    Composite("fun_asr_nano", "FunAsrNanoForConditionalGeneration", "qwen3", True),
    Composite("fuyu", "FuyuForCausalLM", "persimmon", False, flat=True),
    Composite("gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", True, changes=_UNCAPPED),
    Composite("gemma3n", "Gemma3nForConditionalGeneration", "gemma3n_text", True, outside=("audio_soft_tokens_per_image",)),
    Composite("gemma4", "Gemma4ForConditionalGeneration", "gemma4_text", True),
    Composite("gemma4_unified", "Gemma4UnifiedForConditionalGeneration", "gemma4_unified_text", True),
    Composite("glmasr", "GlmAsrForConditionalGeneration", "llama", True, absent=_GLM_ASR),
    Composite("got_ocr2", "GotOcr2ForConditionalGeneration", "qwen2", True),
    Composite("granite_speech", "GraniteSpeechForConditionalGeneration", "granite", True, changes=_UNSCALED),
    Composite("granite_speech_plus", "GraniteSpeechPlusForConditionalGeneration", "granite", True, changes=_UNSCALED),
    Composite("hyperclovax_vision_v2", "HyperCLOVAXVisionV2ForConditionalGeneration", "hyperclovax", True),
    Composite(
        "idefics",
        "IdeficsForVisionText2Text",
        "idefics-text",
        False,
        flat=True,
        # What reads the image in these layers has no reach of text, but for the network behind it.
        aside=(r"model\.gated_cross_attn_layers\.\d+\.(?:cross_attn|input_layernorm|alpha_cross_attn)\b.*",),
        renamed={r"(model\.gated_cross_attn_layers\..*)": r"\1"},
    ),
    Composite("idefics2", "Idefics2ForConditionalGeneration", "mistral", False),
    Composite("idefics3", "Idefics3ForConditionalGeneration", "llama", False),
    Composite("instructblip", "InstructBlipForConditionalGeneration", "opt"),
    Composite("instructblipvideo", "InstructBlipVideoForConditionalGeneration", "opt"),
    Composite("internvl", "InternVLForConditionalGeneration", "qwen2", True),
    Composite("janus", "JanusForConditionalGeneration", "llama", True),
    Composite(
        "kimi_k25",
        "Kimi_K25ForConditionalGeneration",
        "deepseek_v3",
        True,
        # transformers 5.23 saves the layers of text under the name of the tower's.
        renamed={r"language_model\.model\.blocks\.(.*)": r"model.layers.\1"},
    ),
    Composite("kosmos-2", "Kosmos2ForConditionalGeneration", "kosmos_2_text_model", True),
    Composite("kosmos-2.5", "Kosmos2_5ForConditionalGeneration", "kosmos_2_5_text_model", True),
    Composite(
        "kyutai_speech_to_text",
        "KyutaiSpeechToTextForConditionalGeneration",
        "kyutai-text",
        False,
        flat=True,
        outside=("frame_size",),
        aside=(r"codec_model\..*",),
    ),
    Composite("lfm2_vl", "Lfm2VlForConditionalGeneration", "lfm2", True),
    Composite("lfm3_vl", "Lfm3VlForConditionalGeneration", "lfm3", True),
    Composite("lighton_ocr", "LightOnOcrForConditionalGeneration", "qwen3", True),
    Composite("llama4", "Llama4ForConditionalGeneration", "llama4_text", False),
    Composite("llava", "LlavaForConditionalGeneration", "llama"),
    Composite("llava_next", "LlavaNextForConditionalGeneration", "llama", False),
    Composite("llava_next_video", "LlavaNextVideoForConditionalGeneration", "llama"),
    Composite("llava_onevision", "LlavaOnevisionForConditionalGeneration", "qwen2"),
    Composite("minicpm_ocr", "MiniCPMOcrForConditionalGeneration", "qwen3_5_text", True),
    Composite("minicpmv4_6", "MiniCPMV4_6ForConditionalGeneration", "qwen3_5_text", False),
    Composite("minicpmv4_7", "MiniCPMV4_7ForConditionalGeneration", "qwen3_5_text", False),
    Composite("minimax_m3_vl", "MiniMaxM3SparseForConditionalGeneration", "minimax_m3_vl_text", False),
    Composite("mistral3", "Mistral3ForConditionalGeneration", "mistral", True),
    Composite("moss_transcribe_diarize", "MossTranscribeDiarizeForConditionalGeneration", "qwen3", True),
    Composite("muse_glimmer", "MuseGlimmerForConditionalGeneration", "muse_glimmer_text", False),
    Composite("muse_spark", "MuseSparkForConditionalGeneration", "muse_spark_text", False),
    Composite("musicflamingo", "MusicFlamingoForConditionalGeneration", "qwen2"),
    Composite(
        "nemo_speechlm",
        "Nemotron3_5TranscribeForConditionalGeneration",
        "nemotron_h",
        renamed={
            r"llm\.model\.embed_tokens\.(.*)": r"backbone.embeddings.\1",
            r"llm\.model\.norm\.(.*)": r"backbone.norm_f.\1",
            r"llm\.model\.(layers\.\d+\.mixer\.)_fp32_params\.(.*)": r"backbone.\1\2",
            r"llm\.model\.(layers\..*)": r"backbone.\1",
            r"llm\.(lm_head\..*)": r"\1",
        },
    ),
    Composite(
        "nemotron_h_omni",
        "NemotronH_Omni_Reasoning_V3",
        "nemotron_h",
        older_key="llm_config",
        renamed={r"language_model\.((?:backbone|lm_head)\..*)": r"\1"},
    ),
    Composite("inkling2", "Inkling2ForConditionalGeneration", "inkling2_text", False, renamed=_INKLING),
    Composite("ovis2", "Ovis2ForConditionalGeneration", "qwen2", True),
    Composite("perception_lm", "PerceptionLMForConditionalGeneration", "llama"),
    Composite("pp_chart2table", "GotOcr2ForConditionalGeneration", "qwen2", True),
    Composite(
        "qianfan_ocr",
        "QianfanOCRForConditionalGeneration",
        "qwen3",
        False,
        renamed={r"language_model\.model\.encoder\.(layers\..*)": r"model.\1"},  # the same
    ),
    Composite("qwen2_audio", "Qwen2AudioForConditionalGeneration", "qwen2"),
    Composite("qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text", False),
    Composite("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", False),
    Composite("qwen4_exp", "Qwen4ExpForConditionalGeneration", "qwen4_exp_text", False),
    Composite("qwen3_asr", "Qwen3ASRForConditionalGeneration", "qwen3", True),
    Composite("shieldgemma2", "Gemma3ForConditionalGeneration", "gemma3_text", True, changes=_UNCAPPED),
    Composite("smolvlm", "SmolVLMForConditionalGeneration", "llama", False),
    Composite(
        "unlimited_ocr", "UnlimitedOcrForConditionalGeneration", "unlimited_ocr_text", False, older_key="language_config"
    ),
    Composite("vibevoice_asr", "VibeVoiceAsrForConditionalGeneration", "qwen2"),
    Composite("video_llama_3", "VideoLlama3ForConditionalGeneration", "qwen2"),
    Composite("video_llava", "VideoLlavaForConditionalGeneration", "llama", False),
    Composite("vipllava", "VipLlavaForConditionalGeneration", "llama", False),
    Composite("voxtral", "VoxtralForConditionalGeneration", "llama", absent=_VOXTRAL),
    Composite(
        "voxtral_realtime",
        "VoxtralRealtimeForConditionalGeneration",
        "voxtral_realtime_text",
        True,
        absent=_REALTIME,
        only={"default_num_delay_tokens": 6},
    ),
    # Text models with types of their own.
    Composite("emu3", "Emu3ForConditionalGeneration", "emu3_text_model", False),
    Composite("glm46v", "Glm46VForConditionalGeneration", "glm4v_text", False),
    Composite("glm4v", "Glm4vForConditionalGeneration", "glm4v_text", False),
    Composite("glm4v_moe", "Glm4vMoeForConditionalGeneration", "glm4v_moe_text", False),
    Composite("granite_docling", "GraniteDoclingForConditionalGeneration", "granite_docling_text", True),
    Composite("qwen3_omni_moe", "Qwen3OmniMoeForConditionalGeneration", "qwen3_omni_moe_text", False, _THINKER),
    Composite("qwen3_omni_moe_thinker", "Qwen3OmniMoeThinkerForConditionalGeneration", "qwen3_omni_moe_text", False),
    Composite("glm_ocr", "GlmOcrForConditionalGeneration", "glm_ocr_text", False),
    Composite("glmga", "Glm46VForConditionalGeneration", "glm4v_text", False),
    Composite("granite4_vision", "Granite4VisionForConditionalGeneration", "granite4_vision_text", False),
    Composite("paddleocr_vl", "PaddleOCRVLForConditionalGeneration", "paddleocr_vl_text", True, flat=True),
    Composite("qwen2_5_omni", "Qwen2_5OmniForConditionalGeneration", "qwen2_5_omni_text", False, _THINKER),
    Composite("qwen2_5_omni_thinker", "Qwen2_5OmniThinkerForConditionalGeneration", "qwen2_5_omni_text", False),
    Composite("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text", False, flat=True),
    Composite("qwen2_vl", "Qwen2VLForConditionalGeneration", "qwen2_vl_text", False, flat=True),
    Composite("cosmos3_edge", "Cosmos3EdgeForConditionalGeneration", "cosmos3_edge_text", False, renamed=_COSMOS),
    Composite("cosmos3_omni", "Cosmos3OmniForConditionalGeneration", "qwen3_vl_text", False, renamed=_COSMOS),
    Composite("qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3_vl_text", False),
    Composite("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text", False),
    # Of transformers 5.24.
    Composite(
        "apertus1p5",
        "Apertus1p5ForConditionalGeneration",
        "apertus1p5_text",
        False,
        outside=("(?:audio|image)_token_offset",),
    ),
    Composite(
        "hy_v4_vl",
        "HYV4VLForConditionalGeneration",
        "hy_v4_vl_text",
        False,
        renamed={r"(model\.hc_(?:head|pre)\..*)": r"\1"},  # beside a tower called `vit`
    ),
    Composite("omniasr", "OmniASRForConditionalGeneration", "llama", False, absent=_OMNI_ASR),
    Composite("inkling2_loop", "Inkling2LoopForConditionalGeneration", "inkling2_loop_text", False, renamed=_INKLING),
    # Encoders.
    Composite(
        "modernvbert",
        "ModernVBertForMaskedLM",
        "modernbert",
        False,
        renamed={r"lm_head\.(.*)": r"decoder.\1", r"projection_head\.(.*)": r"head.\1"},
    ),
    Composite(
        "ultravbert",
        "UltraVBertForMaskedLM",
        "ultrabert",
        False,
        renamed={r"(?:lm_head|head\.decoder)\.(.*)": r"cls.\1", r"(?:projection_head|head)\.(linear.*)": r"head.\1"},
    ),
    Composite(
        "colmodernvbert",
        "ColModernVBertForRetrieval",
        "modernbert",
        path=("vlm_config", "text_config"),
        headless="ModernBertModel",
        renamed={r"vlm\.(?:model\.)?text_model\.(.*)": r"\1"},
    ),
)
COMPOSITES: Mapping[str, Composite] = {row.model_type: row for row in (*_ROWS, *SOUND_ALONE, *TEXT_ALONE)}
"""Model type -> the composite."""
LATER = frozenset({"apertus1p5", "hy_v4_vl", "inkling2_loop", "omniasr"})
"""Composites of transformers 5.24: the tests run an earlier one, which has no class for them (`families/later.py`)."""
