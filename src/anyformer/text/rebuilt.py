"""The stages of a `tokenizer.json` that transformers builds anew, by the class that the files beside it name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

CLASS = "tokenizer_class"
AS_STORED = ("PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend")
"""Classes that take a `tokenizer.json` as it is."""
_TYPES = (
    "EvollaModel aria beam bigbird_pegasus canary flex_olmo glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image "
    "glmasr got_ocr2 gpt_bigcode gradium_phonon_tts granite granitemoe granitemoehybrid granitemoeshared kimi_k25 "
    "kimi_linear kosmos-2 mimo_v2_flash minicpm_ocr minicpmv4_6 minicpmv4_7 ministral ministral3 mistral mistral3 "
    "mistral_large4 mixtral nemo_speechlm nystromformer olmo2 olmo3 olmo_hybrid pegasus_x persimmon pix2struct pixtral "
    "pocket_tts stablelm umt5 voxtral voxtral_realtime xlm-roberta-xl "
    "arctic chatlm ernie4_5 ernie4_5_moe fuyu h2ovl_chat hyperclovax hyperclovax_vlm internlm2 internlm3 iquestcoder jamba "
    "llava llava_next minicpm3 minicpmv minimax_m2 modernbert modernbert-decoder molmo molmo2 nemotron nvfp4 opencua "
    "openvla paddleocr_vl phi3 phi3_v phimoe step3_vl vipllava cohere_asr camembertv2-base smolvlm"
)
TYPES_AS_STORED = frozenset(_TYPES.split())
"""Model types of which transformers takes a `tokenizer.json` as it is, whatever class is named."""
TYPES_OF_ANOTHER = frozenset(
    ("hyperclovax_vision_v2", "qwen2", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen4_exp", "siglip2")
)
"""Model types with a class of their own, whatever class is named."""
UNNAMED: Mapping[str, frozenset[str]] = {"GemmaTokenizer": frozenset(("<mask>",))}
"""Special tokens that a class has, beside files that say that they are ordinary, without being named."""
_PREFIX_SPACE = "add_prefix_space"


def class_of(config: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    """The class that transformers takes for the one that a `tokenizer_config.json` names, by the type of the model."""
    named, kind = config.get(CLASS), model.get("model_type")
    if not isinstance(named, str) or kind in TYPES_AS_STORED or kind in TYPES_OF_ANOTHER:
        return AS_STORED[0]
    return named if named in AS_STORED else named.removesuffix("Fast")


def rebuilt(table: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """The definition with the stages of the class that the configuration names.

    Most classes build what published files hold too. Two are also named beside files that hold something else: GPT-2's beside
    other expressions that split words, and Llama's beside a normaliser that puts a blank before every piece of a text.
    """
    name = config.get(CLASS, AS_STORED[0])
    if name in AS_STORED or table["model"].get("type") != "BPE":
        return table
    return _BUILT.get(name, _with_prefix_space)(table, config)


def _with_prefix_space(table: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    wanted, words = config.get(_PREFIX_SPACE), table.get("pre_tokenizer")
    if not isinstance(wanted, bool) or not isinstance(words, dict) or words.get("type") != "ByteLevel":
        return table
    return table | {"pre_tokenizer": words | {_PREFIX_SPACE: wanted}}


def _gpt2(table: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    stage = {"type": "ByteLevel", _PREFIX_SPACE: bool(config.get(_PREFIX_SPACE)), "trim_offsets": True, "use_regex": True}
    model = {"dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False,
             "byte_fallback": False, "ignore_merges": False}  # fmt: skip
    return table | {
        "normalizer": None, "pre_tokenizer": stage, "decoder": stage | {_PREFIX_SPACE: True}, "model": table["model"] | model,
    }  # fmt: skip


def _llama(table: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    if _has_byte_level(table.get("pre_tokenizer")):
        return table
    space = config.get(_PREFIX_SPACE) is not False
    scheme = ("always" if config.get("legacy") else "first") if space else "never"
    words = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False}
    steps = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    steps += [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if space else []
    model = {"dropout": None, "unk_token": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False}
    return table | {
        "normalizer": None, "pre_tokenizer": words, "decoder": {"type": "Sequence", "decoders": steps},
        "model": table["model"] | model,
    }  # fmt: skip


def _has_byte_level(stage: Any) -> bool:
    """Whether a stage is, or has, one that spells bytes: of such a file Llama's class takes everything as it is."""
    if not isinstance(stage, dict):
        return False
    return stage.get("type") == "ByteLevel" or any(map(_has_byte_level, stage.get("pretokenizers") or ()))


_BUILT: Mapping[str, Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]] = {
    "GPT2Tokenizer": _gpt2, "LlamaTokenizer": _llama,
}  # fmt: skip
