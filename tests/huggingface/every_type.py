"""Every model type of transformers that reads or writes text, by its auto classes, and what its configuration becomes here."""

from __future__ import annotations

from functools import cache
from typing import Any

import transformers
from transformers.models.auto import modeling_auto

from anyformer import huggingface
from anyformer.describe import UserError

TASKS = (
    "CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM",
    "SEQUENCE_CLASSIFICATION", "TOKEN_CLASSIFICATION", "TEXT_ENCODING", "RETRIEVAL",
)  # fmt: skip
READ = frozenset(model_type for types in huggingface.FAMILIES.values() for model_type in types) | huggingface.ALIASES.keys()
DEFAULTS = {
    "big_bird": "blocks of keys chosen at random, which the class has by default, are refused",
    "bigbird_pegasus": "blocks of keys chosen at random, which the class has by default, are refused",
    "cohere_compass": "the class's defaults leave out the rotary positions",
    "cohere_compass_text": "the class's defaults leave out the rotary positions",
    "deepseek_ocr2": "the class's defaults leave out which layers have experts",
    "deepseek_v2": "the class's defaults leave out the number of experts per token",
    "dots1": "the class's defaults leave out the number of experts",
    "esm": "the class's defaults leave out the token of padding",
    "glm4_moe": "the class's defaults have heads that do not divide the width",
    "glm4v_moe": "the class's defaults have heads that do not divide the width",
    "qwen3_omni_moe": "the class's defaults have heads that do not divide the width",
    "qwen3_omni_moe_thinker": "the class's defaults have heads that do not divide the width",
    "hunyuan_vl": "the class's defaults leave out the width of heads",
    "hunyuan_v1_dense": "the class's defaults leave out the width of heads",
    "tapas": "positions that begin anew in every cell, which the class has by default, are refused",
    "idefics": "the class's defaults leave out the two tokens of images",
    "kyutai_speech_to_text": "the class's defaults keep a window shorter than the longest text",
    "qwen4_exp": "the class's defaults leave out the sizes of the indexer",
    "qwen4_exp_text": "the class's defaults leave out the sizes of the indexer",
    "xmod": "the class's defaults leave out the language",
    "nemotron": "the class's defaults leave out the number of heads of keys",
}
"""Model type that is read -> why the default configuration of its class is not."""


@cache
def text_capable() -> dict[str, str]:
    """Model type -> the first class of transformers for it."""
    found: dict[str, str] = {}
    for task in TASKS:
        for model_type, names in getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES").items():
            found.setdefault(model_type, names if isinstance(names, str) else names[0])
    return found


def outcome(model_type: str) -> str:
    """What the page says of a model type."""
    note = f" ({DEFAULTS[model_type]})" if model_type in DEFAULTS else ""
    if model_type in huggingface.ALIASES:
        return f"read as `{huggingface.ALIASES[model_type]}`"
    if model_type in READ:
        return f"read{note}"
    if model_type in huggingface.COMPOSITES:
        return f"read as its text model, `{huggingface.COMPOSITES[model_type].text}`{note}"
    return f"needs {huggingface.MISSING[model_type]}"


@cache
def default_config(model_type: str) -> dict[str, Any]:
    """The default configuration of a model type's class; the model type alone where the class refuses its own."""
    try:
        return {**transformers.CONFIG_MAPPING[model_type]().to_dict(), "model_type": model_type}
    except Exception:  # whatever a class asks of its arguments
        return {"model_type": model_type}


def refusal(model_type: str) -> str:
    """The error about the default configuration; empty where it is read."""
    try:
        huggingface.read_architecture(huggingface.Config(default_config(model_type)))
    except UserError as error:
        return str(error)
    return ""
