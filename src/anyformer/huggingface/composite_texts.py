"""Types of text models that only composites have, and the families that compute the same of text.

Sources: the configuration classes of transformers 5.23 (keys and defaults).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TextType:
    """A text model's own type: the family that computes the same of text, and what its configuration class means."""

    family: str
    absent: Mapping[str, Any] = field(default_factory=dict)
    """Values of absent keys, where the family has none or others."""
    implied: bool = False
    """Whether heads have D / H features where no key says their width."""
    shared_out: bool = False
    """Whether heads have D / H features even where a key says another width."""
    only: Mapping[str, Any] = field(default_factory=dict)
    """Keys that the family does not have -> the value that means what it computes."""


def sized(*sizes: int, **more: Any) -> dict[str, Any]:
    """The sizes that a configuration class has where its keys are absent: D, layers, H, F, V."""
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
    return {**dict(zip(names, sizes, strict=True)), **more}


_MILLION = 1_000_000.0
_QWEN_VL = TextType(
    "qwen2",
    sized(8192, 80, 64, 29568, 152_064, num_key_value_heads=8, max_window_layers=80, rms_norm_eps=1e-5, rope_theta=_MILLION),
)
_GLM_V: dict[str, Any] = {"rms_norm_eps": 1e-5, "partial_rotary_factor": 1.0}
_BART: dict[str, Any] = {
    "vocab_size": 50265, "d_model": 1024, "encoder_layers": 12, "encoder_attention_heads": 16, "encoder_ffn_dim": 4096,
    "decoder_layers": 12, "decoder_attention_heads": 16, "decoder_ffn_dim": 4096,
}  # fmt: skip
COMPOSITE_TEXTS: Mapping[str, TextType] = {
    "bart": TextType("bart", _BART),
    "cohere2": TextType("cohere2", sized(8192, 40, 64, 22528, 256_000)),
    "cohere_compass_text": TextType("cohere_compass_text", sized(8192, 40, 64, 22528, 256_000)),
    "cosmos3_edge_text": TextType(
        "arcee",
        sized(
            2048, 28, 16, 9216, 131_072, num_key_value_heads=8, head_dim=128, rms_norm_eps=1e-5, hidden_act="relu2",
            rope_theta=100_000_000.0,
        ),
    ),
    "emu3_text_model": TextType(
        "llama",
        sized(
            4096, 32, 32, 14336, 184_622, num_key_value_heads=8, rms_norm_eps=1e-5, rope_theta=_MILLION, attention_dropout=0.1,
        ),
    ),
    "exaone4": TextType("exaone4", sized(4096, 32, 32, 16384, 102_400)),
    "gemma": TextType("gemma", sized(3072, 28, 16, 24_576, 256_000)),
    "gemma3_text": TextType("gemma3_text", sized(2304, 26, 8, 9216, 262_208)),
    "glm4v_text": TextType(
        "glm4", sized(4096, 40, 32, 13696, 151_552, num_key_value_heads=2, attention_bias=True, **_GLM_V), implied=True,
        shared_out=True,
    ),
    "glm4v_moe_text": TextType(
        "glm4_moe",
        sized(4096, 46, 96, 10944, 151_424, attention_bias=True, use_qk_norm=False, num_nextn_predict_layers=0),
    ),
    "granite_docling_text": TextType(
        "granite",
        sized(
            1024, 28, 16, 2048, 133_800, num_key_value_heads=4, rms_norm_eps=1e-5, embedding_multiplier=12.0,
            logits_scaling=4.0, residual_multiplier=0.263, attention_multiplier=0.015625,
        ),
    ),
    "glm_ocr_text": TextType(
        "glm4", sized(1024, 16, 16, 4096, 59_392, num_key_value_heads=8, attention_bias=False, **_GLM_V), implied=True,
    ),
    "granite": TextType("granite", sized(4096, 32, 32, 11008, 32_000)),
    "granite4_vision_text": TextType("granite", sized(4096, 32, 32, 11008, 32_000)),
    "hunyuan_vl_text": TextType("hunyuan_v1_dense", sized(4096, 32, 32, 11008, 290_943), implied=True),
    "hyperclovax": TextType("hyperclovax", sized(4096, 32, 32, 11008, 32_000)),
    "kosmos_2_text_model": TextType(
        "kosmos_2_text_model",
        {"vocab_size": 65_037, "embed_dim": 2048, "layers": 24, "ffn_dim": 8192, "attention_heads": 32},
    ),
    "kosmos_2_5_text_model": TextType(
        "kosmos_2_5_text_model",
        {
            "vocab_size": 108_481, "embed_dim": 1536, "layers": 24, "ffn_dim": 6144, "attention_heads": 16,
            "attention_dropout": 0.0,
        },
    ),
    "llama": TextType("llama", sized(4096, 32, 32, 11008, 32_000)),
    "llama4_text": TextType("llama4_text", sized(5120, 48, 40, 8192, 202_048)),
    "mistral": TextType("mistral", sized(4096, 32, 32, 14336, 32_000)),
    "mllama_text_model": TextType(
        "mllama_text_model", sized(4096, 40, 32, 14336, 128_256, num_key_value_heads=8, rope_theta=500_000.0)
    ),
    "modernbert": TextType("modernbert", sized(768, 22, 12, 1152, 50_368)),
    "paddleocr_vl_text": TextType(  # ERNIE 4.5 whose rotary pairs are halves, which is Llama
        "llama",
        sized(1024, 18, 16, 3072, 103_424, num_key_value_heads=2, head_dim=128, rms_norm_eps=1e-5, rope_theta=500_000.0),
        only={"use_bias": False},
    ),
    "persimmon": TextType("persimmon", sized(4096, 36, 64, 16384, 262_144)),
    "qwen2": TextType("qwen2", sized(4096, 32, 32, 22016, 151_936)),
    "qwen2_vl_text": _QWEN_VL,
    "qwen2_5_vl_text": _QWEN_VL,
    "qwen2_5_omni_text": TextType("qwen2", sized(3584, 28, 28, 18944, 152_064, num_key_value_heads=4, rope_theta=_MILLION)),
    "qwen3": TextType("qwen3", sized(4096, 32, 32, 22016, 151_936)),
    "qwen3_omni_moe_text": TextType(
        "qwen3_moe",
        sized(
            2048, 28, 28, 18944, 3584, num_key_value_heads=4, rope_theta=_MILLION, num_experts=128, norm_topk_prob=True,
        ),
    ),
    "qwen3_vl_text": TextType("qwen3", sized(4096, 32, 32, 22016, 151_936, rope_theta=500_000.0)),
    "qwen3_vl_moe_text": TextType(
        "qwen3_moe",
        sized(
            2048, 24, 16, 5632, 151_936, num_key_value_heads=16, rope_theta=500_000.0, moe_intermediate_size=1408,
            num_experts_per_tok=4, num_local_experts=60, norm_topk_prob=True,
        ),
    ),
}  # fmt: skip
"""Type of a text model -> how it is read; a type that is not here is its own family."""
