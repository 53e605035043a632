"""Model types that read or write sound, and of which the decoder alone is read: of texts, or of codes of sound.

What hears, or says what is to be heard, is left aside: encoders and the attention to them. Sources: the classes of transformers
5.23, which tests/huggingface/test_composites.py holds against ours.
"""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.composite_row import Composite

_WITHOUT_SOUND: dict[str, Any] = {
    "renamed": {r"(model\.decoder\..*|proj_out\..*)": r"\1"},
    "aside": (r".*\.(?:encoder_attn|post_attention_layernorm)\..*", r"model\.decoder\.proj\..*"),
}
"""Names of decoders of text under the head of a model that hears, and those of what reads the sound."""
_NEMO_LAYER = r"(?:model\.)?transf_decoder\._decoder\.(layers\.\d+)\."
_OF_NEMO: dict[str, str] = {
    **{
        rf"{_NEMO_LAYER}first_sub_layer\.{theirs}\.(.*)": rf"model.decoder.\1.self_attn.{ours}_proj.\2"
        for ours, theirs in {"q": "query_net", "k": "key_net", "v": "value_net", "o": "out_projection"}.items()
    },
    rf"{_NEMO_LAYER}third_sub_layer\.dense_in\.(.*)": r"model.decoder.\1.mlp.fc1.\2",
    rf"{_NEMO_LAYER}third_sub_layer\.dense_out\.(.*)": r"model.decoder.\1.mlp.fc2.\2",
    rf"{_NEMO_LAYER}layer_norm_1\.(.*)": r"model.decoder.\1.input_layernorm.\2",
    rf"{_NEMO_LAYER}layer_norm_3\.(.*)": r"model.decoder.\1.final_layernorm.\2",
    r"(?:model\.)?transf_decoder\._decoder\.final_layer_norm\.(.*)": r"model.decoder.norm.\1",
    r"(?:model\.)?transf_decoder\._embedding\.layer_norm\.(.*)": r"model.decoder.embedding_layernorm.\1",
    r"(?:model\.)?transf_decoder\._embedding\.position_embedding\.pos_enc": "model.decoder.pos_emb.weight",
    r"(?:model\.)?transf_decoder\._embedding\.token_embedding\.(.*)": r"model.decoder.embed_tokens.\1",
    r"log_softmax\.mlp\.layer0\.(.*)": r"proj_out.\1",
}
"""Names of NeMo's decoders, under which Cohere Transcribe is published and saved."""
_SPEECHT5_OUTSIDE = (
    "(?:apply_spec_augment|conv|encoder|feat|guided|mask|num_conv|speaker|speech|use_guided)_.*|apply_spec_augment",
    "max_speech_positions|num_(?:feat_extract_layers|mel_bins)|reduction_factor",
)
SOUND_ALONE: tuple[Composite, ...] = (
    Composite("canary", "CanaryForConditionalGeneration", "canary_decoder", True, path=("decoder_config",), **_WITHOUT_SOUND),
    Composite(
        "cohere_asr",
        "CohereAsrForConditionalGeneration",
        "cohere_asr-text",
        False,
        flat=True,
        renamed={**_OF_NEMO, **_WITHOUT_SOUND["renamed"]},
        aside=(*_WITHOUT_SOUND["aside"], r".*\.(?:second_sub_layer|layer_norm_2)\..*"),
    ),
    Composite(
        "dia",
        "DiaForConditionalGeneration",
        "dia_decoder",
        False,
        path=("decoder_config",),
        renamed={r"(model\.decoder\..*|logits_dense\..*)": r"\1"},
        aside=(r".*\.(?:cross_attention|pre_ca_norm)\..*",),
        outside=("delay_pattern",),
    ),
    Composite(
        "moonshine_streaming",
        "MoonshineStreamingForConditionalGeneration",
        "moonshine_streaming-text",
        False,
        flat=True,
        renamed=_WITHOUT_SOUND["renamed"],
        aside=(*_WITHOUT_SOUND["aside"], r"model\.decoder\.pos_emb\..*"),
    ),
    *(
        Composite(
            name,
            f"{class_name}ForConditionalGeneration",
            f"{name}_decoder",
            path=("decoder",),
            renamed={r"decoder\.(.*)": r"\1"},
            aside=(r".*\.encoder_attn(?:_layer_norm)?\..*",),
            outside=("decoder", "text_encoder", "audio_encoder", "num_chroma", "chroma_length"),
        )
        for name, class_name in (("musicgen", "Musicgen"), ("musicgen_melody", "MusicgenMelody"))
    ),
    Composite(
        "speecht5",
        "SpeechT5ForSpeechToText",
        "speecht5-text",
        True,
        flat=True,
        renamed={r"(speecht5\.decoder\..*|text_decoder_postnet\..*)": r"\1"},
        aside=(r".*\.encoder_attn(?:_layer_norm)?\..*",),
        outside=_SPEECHT5_OUTSIDE,
    ),
)
"""In the order of their names."""
