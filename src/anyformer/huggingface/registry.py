"""The families by file and model type."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from anyformer.costs.traceable import traceable
from anyformer.describe import PLUGINS, UserError, did_you_mean, without_plugins
from anyformer.describe.plugins import SHORT
from anyformer.huggingface import plugin_families
from anyformer.huggingface.class_heads import beside, check_head
from anyformer.huggingface.composite import text_family, text_table
from anyformer.huggingface.composites import COMPOSITES
from anyformer.huggingface.config import FEW_BITS, Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.missing import MISSING, TWO_TOWERS
from anyformer.huggingface.target import nowhere
from anyformer.model import Architecture

if TYPE_CHECKING:
    from anyformer.huggingface.stored import StoredFormat

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "llama": ("llama",),
    "mistral": ("mistral", "ministral", "ministral3", "mixtral"),
    "qwen": ("qwen2", "qwen3"),
    "smollm": ("smollm3",),
    "olmo": ("olmo", "olmo2", "olmo3", "olmoe", "flex_olmo"),
    "gemma": ("gemma", "gemma2", "vaultgemma", "gemma3_text"),
    "gemma3n": ("gemma3n_text",),
    "gemma4": ("gemma4_text", "gemma4_unified_text"),
    "cohere": ("cohere", "cohere2", "cohere_compass_text"),
    "granite": (
        "granite", "granite_swa", "hyperclovax", "granitemoe", "granitemoeshared", "granitemoe_swa", "granitemoehybrid",
    ),
    "exaone": ("exaone4",),
    "bert": ("bert", "ernie", "megatron-bert", "big_bird"),
    "roberta": (
        "roberta", "xlm-roberta", "camembert", "data2vec-text", "roberta-prelayernorm", "xlm-roberta-xl", "mpnet", "ibert",
    ),
    "xmod": ("xmod",),
    "distilbert": ("distilbert",),
    "electra": ("electra", "rembert", "roformer"),
    "squeezebert": ("squeezebert",),
    "convbert": ("convbert",),
    "mobilebert": ("mobilebert",),
    "albert": ("albert",),
    "nystromformer": ("nystromformer",),
    "yoso": ("yoso",),
    "fnet": ("fnet",),
    "nomic": ("nomic_bert", "gte", "jina_embeddings_v3"),
    "marked": ("layoutlm", "tapas", "roc_bert"),
    "markuplm": ("markuplm",),
    "modernbert": ("modernbert", "modernbert-decoder"),
    "eurobert": ("eurobert",),
    "esm": ("esm",),
    "deberta": ("deberta-v2", "deberta"),
    "vit": ("vit", "deit", "ijepa", "vit_msn"),
    "clip_vision": ("clip_vision_model", "siglip_vision_model"),
    "dino": ("dinov2", "dinov2_with_registers", "dinov3_vit"),
    "gpt2": ("gpt2", "imagegpt"),
    "gpt_bigcode": ("gpt_bigcode",),
    "gpt": ("openai-gpt",),
    "gpt_neo": ("gpt_neo",),
    "gptj": ("gptj", "codegen"),
    "gpt_neox": ("gpt_neox", "gpt_neox_japanese"),
    "bloom": ("bloom",),
    "opt": ("opt",),
    "mpt": ("mpt",),
    "falcon": ("falcon",),
    "ctrl": ("ctrl",),
    "xglm": ("xglm",),
    "biogpt": ("biogpt",),
    "bert_generation": ("bert-generation",),
    "xlnet": ("xlnet",),
    "xlm": ("xlm", "flaubert"),
    "bart": ("bart", "mbart", "plbart", "mvp", "blenderbot", "blenderbot-small", "pegasus", "m2m_100"),
    "bigbird_pegasus": ("bigbird_pegasus",),
    "nllb_moe": ("nllb-moe",),
    "marian": ("marian",),
    "fsmt": ("fsmt",),
    "t5": ("t5", "mt5", "umt5", "longt5"),
    "switch_transformers": ("switch_transformers",),
    "wav2vec2": ("wav2vec2", "hubert", "unispeech", "unispeech-sat", "data2vec-audio"),
    "whisper": ("whisper",),
    "moonshine": ("moonshine",),
    "speech_to_text": ("speech_to_text",),
    "t5gemma": ("t5gemma",),
    "encoder_decoder": ("encoder-decoder", "vision-encoder-decoder", "speech-encoder-decoder"),
    "qwen_moe": ("qwen2_moe", "qwen3_moe"),
    "dbrx": ("dbrx",),
    "phimoe": ("phimoe",),
    "gpt_oss": ("gpt_oss", "openai_privacy_filter"),
    "glm_moe": ("glm4_moe", "solar_open", "dots1", "exaone_moe"),
    "beam": ("beam",),
    "afmoe": ("afmoe",),
    "laguna": ("laguna",),
    "minimax_m2": ("minimax_m2",),
    "minimax_m3": ("minimax_m3_vl_text",),
    "ernie_moe": ("ernie4_5_moe",),
    "llama4": ("llama4_text",),
    "cohere2_moe": ("cohere2_moe",),
    "mimo_v2": ("mimo_v2_flash",),
    "kolibri": ("kolibri1", "flint"),
    "starcoder2": ("starcoder2",),
    "phi": ("phi3", "phi"),
    "stablelm": ("stablelm",),
    "glm": ("glm", "glm4"),
    "helium": ("helium", "ernie4_5"),
    "seed_oss": ("seed_oss", "internlm3", "iquestcoder", "cwm"),
    "nemotron": ("nemotron", "jais2", "arcee"),
    "persimmon": ("persimmon",),
    "apertus": ("apertus",),
    "hunyuan": ("hunyuan_v1_dense", "hunyuan_v1_moe", "hy_v3"),
    "nanochat": ("nanochat",),
    "hrm_text": ("hrm_text",),
    "bitnet": ("bitnet",),
    "diffllama": ("diffllama",),
    "mellum": ("mellum",),
    "deepseek": ("deepseek_v3", "deepseek_v2", "glm4_moe_lite", "axk1"),
    "axk2": ("axk2",),
    "doge": ("doge",),
    "dots3_note": ("dots3_note_text",),
    "hy_v4": ("hy_v4",),
    "deepseek_sparse": ("deepseek_v32", "glm_moe_dsa"),
    "deepseek_v4": ("deepseek_v4",),
    "kimi": ("kimi_linear",),
    "bailing": ("bailing_hybrid",),
    "qwen_next": ("qwen3_next", "qwen3_5_moe_text", "qwen3_5_text"),
    "qwen4": ("qwen4_exp_text",),
    "minimax": ("minimax",),
    "lfm": ("lfm2", "lfm2_moe", "lfm3"),
    "longcat_flash": ("longcat_flash",),
    "jetmoe": ("jetmoe",),
    "olmo_hybrid": ("olmo_hybrid",),
    "mamba": ("mamba", "falcon_mamba", "mamba2"),
    "bamba": ("bamba",),
    "falcon_h1": ("falcon_h1",),
    "jamba": ("jamba",),
    "zamba": ("zamba",),
    "zamba2": ("zamba2",),
    "xlstm": ("xlstm",),
    "rwkv": ("rwkv",),
    "recurrent_gemma": ("recurrent_gemma",),
    "nemotron_h": ("nemotron_h",),
    "minicpm3": ("youtu", "minicpm3"),
    "esmc": ("esmc",),
    "ultrabert": ("ultrabert",),
    "aria": ("aria_text",),
    "inkling2": ("inkling2_text",), "molmo2": ("molmo2_text",),
    "mistral4": ("mistral4",),
    "clip_text": ("clip_text_model", "tipsv2_text_model"),
}  # fmt: skip
"""File in `families` -> the model types in it, in the order in which an export tries them."""

ALIASES: Mapping[str, str] = {"kimi_k2": "deepseek_v3", "gpt-sw3": "gpt2"}
"""Model type of files that bring their own code or tokenizer -> the one of transformers that computes the same."""

READ_ONLY: Mapping[str, tuple[str, ...]] = {
    "remote_llama": ("exaone", "qwen", "minicpm", "internlm", "internlm2", "baichuan", "mimo"),
    "remote_nas": ("nemotron-nas",),
    "remote_experts": ("deepseek", "sarvam_moe", "deepseek_ocr2_text", "unlimited_ocr_text"),
    "kosmos": ("kosmos_2_text_model", "kosmos_2_5_text_model"),
    "mllama": ("mllama_text_model",),
    "idefics": ("idefics-text",),
    "muse": ("muse_glimmer_text", "muse_spark_text"),
    "longformer": ("longformer-text", "led-text"),
    "moshi": ("moshi-text", "kyutai-text"),
    "voxtral": ("voxtral_realtime_text",),
    "text_decoders": ("trocr-text", "pp_formulanet_text", "blip_text_model"),
    "chameleon": ("chameleon-text",),
    "pix2struct": ("pix2struct_text_model",),
    "step3p7": ("step3p5",), "dory": ("dory",), "inkling2_loop": ("inkling2_loop_text",),
    "sound_decoders": ("canary_decoder", "cohere_asr-text", "moonshine_streaming-text", "speecht5-text"),
    "code_decoders": ("musicgen_decoder", "musicgen_melody_decoder", "dia_decoder"),
    "later": ("sarvam_mla", "lara_mini", "apertus1p5_text", "hy_v4_vl_text"),
}  # fmt: skip
"""File in `families` -> types that are read, and that no class of transformers loads alone: those of files that bring code of
their own, which is never run, and text models that only composites have. An export writes them as another type."""

OF_OTHERS = frozenset({"encoder_decoder"})
"""Files of `families` whose types are made of two others, and which are given `family` to find those."""

OWN = "anyformer"
"""Model type and file of our own layout, which expresses every architecture."""

_FILES: Mapping[str, str] = {kind: file for file, kinds in {**FAMILIES, **READ_ONLY}.items() for kind in kinds} | {OWN: OWN}


def family(model_type: str) -> Family:
    """The family of a model type; `HuggingFaceError` with suggestions for an unknown one."""
    model_type = ALIASES.get(model_type, model_type)
    if model_type in COMPOSITES:
        raise HuggingFaceError(
            f"{model_type} is a composite of a text model and towers, which only its own files name: give its directory or its "
            f"config.json to read it, and anyformer export --towers DIRECTORY to write it"
        )
    if model_type not in _FILES and (found := plugin_families.found(model_type)):
        return found
    if model_type in TWO_TOWERS:
        raise HuggingFaceError(
            f"model type {model_type!r} is two architectures, and this reads one: load_two_towers of "
            "anyformer.huggingface reads both"
        )
    if model_type in MISSING:
        raise HuggingFaceError(f"model type {model_type!r} is not read: it needs {MISSING[model_type]}")
    if model_type not in _FILES:
        written = sum(map(len, FAMILIES.values()))
        hint = did_you_mean(model_type, sorted(_FILES.keys() - {OWN}), "docs/reference/families.md", written)
        raise HuggingFaceError(f"model type {model_type!r} is not known here{hint}; {SHORT}, from anyformer port DIR --out DIR")
    return next(family for family in families_of(_FILES[model_type]) if family.model_type == model_type)


def model_types() -> frozenset[str]:
    """The model types that are known: those of the package, of composites and of plug-ins."""
    return frozenset({*_FILES, *ALIASES, *COMPOSITES, *(each.model_type for each in plugin_families.families())})


def register(*families: Family) -> None:
    """Know families of a plug-in by their model types: they are read, written and loaded like those of this package."""
    for each in families:
        if each.model_type in {*_FILES, *ALIASES, *COMPOSITES}:
            raise UserError(f"model type {each.model_type!r} is read here already: give the family another model type")
        plugin_families.enter(each)


def family_of(config: Config, *, images: bool = False, audio: bool = False) -> Family:
    """The family of a configuration: of a composite, the family of the text model in it, with its `images` and its sound
    (`audio`) if asked for."""
    composite = COMPOSITES.get(config.model_type)
    _, named = without_plugins({PLUGINS: config(plugin_families.KEY, [], nowhere)}, config.where)
    if named and config.model_type not in _FILES and plugin_families.found(config.model_type) is None:
        plugin_families.check_plugins(config.model_type, named)
    if not images and not audio:
        return family(config.model_type) if composite is None else text_family(composite, config, family)
    if composite is None and (found := family(config.model_type)).sees:
        return found
    if composite is None:
        tower = "images" if images else "sound"
        raise HuggingFaceError(f"{config.where}: {config.model_type} has no tower for {tower}: read it without {tower}")
    from anyformer.huggingface.sound.models import hearing_of
    from anyformer.huggingface.vision.sources import SOURCES, with_source
    from anyformer.huggingface.vision.whole import vision_of, with_images, with_sound

    if images and config.model_type in SOURCES:
        return with_source(config, SOURCES[config.model_type], text_family(composite, config, family))
    vision, hearing = vision_of(config) if images else None, hearing_of(config) if audio else None
    made = text_family(composite, config, family, axes=vision.axes if vision else {})
    made = with_images(config, vision, made) if vision else made
    return with_sound(config, hearing, made) if hearing else made


def text_keys(config: Config) -> dict[str, Any]:
    """The keys of a configuration; of a composite, those of its text model."""
    composite = COMPOSITES.get(config.model_type)
    return config.written if composite is None else text_table(composite, config)[0]


def own() -> Family:
    """The family of our own layout."""
    return family(OWN)


@cache
def families_of(file: str) -> tuple[Family, ...]:
    """The families that a file defines, with the classes that transformers has beside their language models."""
    module = importlib.import_module(f"anyformer.huggingface.families.{file}")
    families: Iterable[Family] = module.families(family) if file in OF_OTHERS else module.FAMILIES
    return tuple(map(beside, families))


def read_architecture(config: Config, *, images: bool = False, audio: bool = False) -> tuple[Architecture, Family]:
    """The architecture and family of a configuration; every key is read, known to be inert, or refused by name.

    `images`, `audio`: with the tower for images, or for sound, of a composite, of which otherwise the text model alone is read.
    """
    stored_format(config)
    reader = family_of(config, images=images, audio=audio)
    with config.naming():
        architecture = reader.read(config)
        check_head(config, architecture)
    config.finish(reader.inert)
    return architecture, reader


def stored_format(config: Config) -> StoredFormat | None:
    """The format in which a configuration, or that of its text model, says that weights are stored in few bits; None where
    they are plain numbers, and without torch, which reads weights."""
    table = {key: config(key, None, nowhere) for key in FEW_BITS}
    if config.model_type in COMPOSITES and not any(table.values()):
        table = {key: text_keys(config).get(key) for key in FEW_BITS}
    if not any(table.values()) or not traceable():
        return None
    from anyformer.huggingface.stored import format_of

    return format_of(table, config.where)
