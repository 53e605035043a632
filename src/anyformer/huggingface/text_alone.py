"""Model types that read more than text, and of which text alone reaches a known text model in the midst of other weights.

What no text reaches is left aside: entities, global tokens, cross-attention to images or proteins, adapters of other inputs.
Sources: the classes of transformers 5.23, which tests/huggingface/test_composites.py holds against ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.describe import get
from anyformer.huggingface.composite_row import Composite
from anyformer.huggingface.composite_texts import sized
from anyformer.model import Architecture
from anyformer.parts import Prefix


def _prompt_both_ways(architecture: Architecture) -> dict[str, Any]:
    """Masks by which a prompt is read both ways: the first positions, whose number a call names (`prefix`; 0 without it)."""
    assert architecture.decoder is not None, "these text models are decoders"
    paths = [f"decoder.{name}.attention.mask" for name in architecture.decoder.variants]
    return {path: get(architecture, path) | Prefix() for path in paths}


_BOTH_WAYS: dict[str, Any] = {
    "changes": _prompt_both_ways,
    "said": {"use_bidirectional_attention": True},
    "outside": ("num_image_tokens",),
}
_HEADLESS: dict[str, Any] = {
    **_BOTH_WAYS,
    "path": ("vlm_config", "text_config"),
    "changes": lambda architecture: {**_prompt_both_ways(architecture), "head": None},
}
_EVOLLA = {
    **sized(4096, 32, 32, 14_336, 128_256, num_key_value_heads=8, max_position_embeddings=8192),
    "rms_norm_eps": 1e-5, "rope_theta": 500_000.0,
}  # fmt: skip
_PIANO = {
    "vocab_size": 2400, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8,
    "feed_forward_proj": "gated-gelu", "dense_act_fn": "relu",
}  # fmt: skip
_ACTIONS = "chunk_size|loss_reduction|max_.*_dim|m(?:in|ax)_period|num_inference_steps|time_sampling_.*"
"""Keys of the expert for actions beside pi0's text model."""
_LUKE = {
    r"luke\.(embeddings|encoder)\.(.*)": r"roberta.\1.\2",
    r"lm_head\.bias": "lm_head.decoder.bias",
    r"(lm_head\..*)": r"\1",
}
_GIT = {
    r"git\.(embeddings|encoder)\.(.*)": r"bert.\1.\2",
    r"output\.(.*)": r"lm_head.decoder.\1",
}
_LED = {
    "vocab_size": 50_265, "d_model": 1024, "encoder_layers": 12, "encoder_attention_heads": 16, "encoder_ffn_dim": 4096,
    "decoder_layers": 12, "decoder_attention_heads": 16, "decoder_ffn_dim": 4096,
}  # fmt: skip
_SEAMLESS = {
    "vocab_size": 256_102, "d_model": 1024, "encoder_layers": 24, "encoder_attention_heads": 16, "encoder_ffn_dim": 8192,
    "decoder_layers": 24, "decoder_attention_heads": 16, "decoder_ffn_dim": 8192, "pad_token_id": 0,
}  # fmt: skip
_SEAMLESS_NAMES = {
    r"text_((?:en|de)coder\.layers\.\d+)\.ffn\.(.*)": r"model.\1.\2",
    r"text_((?:en|de)coder\.layers\.\d+)\.ffn_layer_norm\.(.*)": r"model.\1.final_layer_norm.\2",
    r"text_(decoder\.layers\.\d+)\.cross_attention(_layer_norm)?\.(.*)": r"model.\1.encoder_attn\2.\3",
    r"text_((?:en|de)coder\..*)": r"model.\1",
    r"(shared\..*)": r"model.\1",
    r"(lm_head\..*)": r"\1",
}
_SEAMLESS_OUTSIDE = (
    "(?:t2u|speech_encoder|vocoder|feature_projection|conv|num_conv|adaptor|upsample|resblock|rotary|variance|var)_.*",
    "(?:left|right)_max_position_embeddings|(?:char|unit_hifi_gan)_vocab_size|(?:unit|lang|spkr)_embed_dim|layer_norm_eps",
    "add_adapter|leaky_relu_slope|max_new_tokens|max_source_positions|num_adapter_layers|position_embeddings_type|sampling_rate",
)


def _seamless(architecture: Architecture) -> dict[str, Any]:
    """The branches of networks drop what their hidden layers drop."""
    return {
        f"{side}.layer.feedforward.dropout": get(architecture, f"{side}.layer.feedforward.sublayer.dropout")
        for side in architecture.stacks
    }


MLLAMA_READS_IMAGES = (3, 8, 13, 18, 23, 28, 33, 38)
"""The layers of Llama 3.2 Vision that read images, where its table does not say."""


def without_images(table: Mapping[str, Any]) -> list[int]:
    """The numbers of the layers of Llama 3.2 Vision that text alone goes through."""
    listed = table.get("cross_attention_layers")
    return sorted(set(range(table.get("num_hidden_layers", 40))) - set(MLLAMA_READS_IMAGES if listed is None else listed))


TEXT_ALONE: tuple[Composite, ...] = (
    Composite(
        "blip",
        "BlipForConditionalGeneration",
        "blip_text_model",
        renamed={r"text_decoder\.(.*)": r"\1"},
        aside=(r".*\.crossattention\..*", r"text_encoder\..*"),
        outside=("label_smoothing", "logit_scale_init_value"),
    ),
    Composite(
        "chameleon",
        "ChameleonForConditionalGeneration",
        "chameleon-text",
        False,
        flat=True,
        outside=("model_parallel_size", "vocabulary_map", "image_token_id"),
        aside=(r"model\.vqmodel\..*",),
    ),
    Composite(
        "colpali",
        "ColPaliForRetrieval",
        "gemma",
        renamed={r"vlm\.(?:model\.)?language_model\.(?:model\.)?(.*)": r"model.\1"},
        **_HEADLESS,
    ),
    Composite(
        "evolla",
        "EvollaForProteinText2Text",
        "llama",
        False,
        flat=True,
        absent=_EVOLLA,
        said={"is_decoder": False},
        outside=("aligner_.*", "resampler_.*"),
        aside=(r"model\.layers\.\d+\.adapter\..*",),
    ),
    Composite(
        "git",
        "GitForCausalLM",
        "bert-generation",
        False,
        flat=True,
        absent=sized(768, 6, 12, 3072, 30_522, max_position_embeddings=1024, is_decoder=True),
        renamed=_GIT,
        outside=("num_image_with_embedding",),
    ),
    Composite(
        "hunyuan_vl",
        "HunYuanVLForConditionalGeneration",
        "hunyuan_vl_text",
        True,
        flat=True,
        outside=("im_(?:start|end|newline)_id",),
        renamed={r"model\.((?:layers|embed_tokens|norm)\..*)": r"model.\1"},
    ),
    Composite(
        "led",
        "LEDForConditionalGeneration",
        "led-text",
        True,
        flat=True,
        absent=_LED,
        renamed={
            r"led\.encoder\.layers\.(\d+)\.self_attn\.longformer_self_attn\.(q|k|v)(?:uery|ey|alue)\.(.*)": (
                r"model.encoder.layers.\1.self_attn.\2_proj.\3"
            ),
            r"led\.encoder\.layers\.(\d+)\.self_attn\.output\.(.*)": r"model.encoder.layers.\1.self_attn.out_proj.\2",
            r"led\.(.*)": r"model.\1",
            r"(lm_head\..*|final_logits_bias)": r"\1",
        },
        aside=(r".*\.(?:query|key|value)_global\..*",),
    ),
    Composite(
        "longformer",
        "LongformerForMaskedLM",
        "longformer-text",
        True,
        flat=True,
        absent=sized(768, 12, 12, 3072, 30_522),
        renamed={r"((?:longformer|lm_head)\..*)": r"\1"},
        outside=("onnx_export", "ignore_attention_mask"),
        aside=(r".*\.(?:query|key|value)_global\..*",),
    ),
    Composite(
        "luke",
        "LukeForMaskedLM",
        "roberta",
        False,
        flat=True,
        absent=sized(768, 12, 12, 3072, 50_267),
        renamed=_LUKE,
        # The class never ties its head, whatever the configuration says.
        changes={"head.tied": False},
        outside=("entity_.*", "use_entity_aware_attention"),
        aside=(r".*\.(?:w2e|e2w|e2e)_query\..*",),
    ),
    Composite("mllama", "MllamaForConditionalGeneration", "mllama_text_model", False, reached=without_images),
    Composite(
        "molmo2",
        "Molmo2ForConditionalGeneration",
        "molmo2_text",
        False,
        headless="Molmo2ForConditionalGeneration",
        renamed={
            r"model\.transformer\.blocks\.(.*)": r"layers.\1",
            r"model\.transformer\.ln_f\.(.*)": r"norm.\1",
            r"model\.transformer\.(wte\..*)": r"\1",
            r"(lm_head\..*)": r"\1",
        },
        outside=(".*_(?:token|patch)_id",),
    ),
    Composite(
        "moshi",
        "MoshiForConditionalGeneration",
        "moshi-text",
        False,
        flat=True,
        renamed={r"decoder\.((?:model|lm_head)\..*)": r"\1", r"((?:model|lm_head)\..*)": r"\1"},
        outside=("audio_vocab_size", "num_codebooks"),
    ),
    Composite("paligemma", "PaliGemmaForConditionalGeneration", "gemma", True, **_BOTH_WAYS),
    Composite(
        "phi4_multimodal",
        "Phi4MultimodalForCausalLM",
        "phi3",
        False,
        flat=True,
        absent=sized(3072, 32, 32, 8192, 200_064, num_key_value_heads=8, original_max_position_embeddings=4096),
        aside=(r"model\.embed_tokens_extend\..*",),
    ),
    Composite(
        "pi0",
        "PI0ForConditionalGeneration",
        "gemma",
        # As LeRobot publishes them, and as transformers calls them.
        renamed={r"(?:paligemma_with_expert\.paligemma\.model|model\.vlm)\.language_model\.(?:model\.)?(.*)": r"model.\1"},
        **{**_HEADLESS, "outside": (*_BOTH_WAYS["outside"], _ACTIONS)},
    ),
    Composite(
        "pix2struct",
        "Pix2StructForConditionalGeneration",
        "pix2struct_text_model",
        False,
        headless="Pix2StructTextModel",
        renamed={r"decoder\.(.*)": r"\1"},
        aside=(r"decoder\.layer\.\d+\.encoder_decoder_attention\..*",),
        outside=("is_vqa",),
    ),
    Composite(
        "pop2piano",
        "Pop2PianoForConditionalGeneration",
        "t5",
        True,
        flat=True,
        absent=_PIANO,
        renamed={r"((?:shared|lm_head|encoder|decoder)\..*)": r"\1"},
        outside=("composer_vocab_size",),
    ),
    Composite(
        "pp_formulanet",
        "PPFormulaNetForConditionalGeneration",
        "pp_formulanet_text",
        False,
        renamed={r"(model\.decoder\..*|lm_head\..*)": r"\1"},
        aside=(r".*\.encoder_attn(?:_layer_norm)?\..*",),
    ),
    *(
        Composite(
            model_type,
            f"{name}ForTextToText",
            "m2m_100",
            True,
            flat=True,
            keys={"hidden_size": "d_model", "initializer_range": "init_std"},
            absent={**_SEAMLESS, "max_position_embeddings": longest},
            renamed=_SEAMLESS_NAMES,
            changes=_seamless,
            outside=_SEAMLESS_OUTSIDE,
        )
        for model_type, name, longest in (
            ("seamless_m4t", "SeamlessM4T", 1024),
            ("seamless_m4t_v2", "SeamlessM4Tv2", 4096),
        )
    ),
    Composite(
        "step3p7",
        "Step3p7ForConditionalGeneration",
        "step3p5",
        False,
        renamed={r"(model\.(?:layers|embed_tokens|norm)\..*|lm_head\..*)": r"\1"},
    ),
    Composite(
        "trocr",
        "TrOCRForCausalLM",
        "trocr-text",
        True,
        flat=True,
        outside=("is_decoder",),  # which its class sets whatever it is
        renamed={r"(model\.decoder\..*|output_projection\..*)": r"\1"},
        aside=(r".*\.encoder_attn(?:_layer_norm)?\..*",),
    ),
    Composite("vibevoice", "VibeVoiceForConditionalGeneration", "qwen2", outside=("diffusion_loss_weight",)),
)
"""In the order of their names."""
