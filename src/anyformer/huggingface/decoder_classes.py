"""The classes that transformers has of each type of decoder beside its language model, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from anyformer.huggingface.words.encoder_heads import SPANS, TOKENS

BASE = "Model"
TEXT = "ForSequenceClassification"
"""Ends of the names of classes: without a head, and with a vector of logits per text."""


@dataclass(frozen=True)
class Decoder:
    """The classes of one model type beside its language model."""

    start: str
    """The beginning of their names."""
    heads: Mapping[str, str]
    """End of a class's name -> the stored name of its matrix."""
    padding: int | None = None
    """`pad_token_id` where the key is absent."""
    span_base: str | None = None
    """The prefix of names under the head of spans, if not that of the others."""
    prefixed: bool = False
    """Write the prefix of names without a head too: transformers renames tensors of the type by patterns that have it."""

    @property
    def per_token(self) -> str | None:
        """The end of the name of the class for a head of classes of each token."""
        return next((task for task in (TOKENS, SPANS) if task in self.heads), None)


_NONE: Mapping[str, str] = MappingProxyType({})
_TEXT: Mapping[str, str] = MappingProxyType({TEXT: "score"})
_BOTH: Mapping[str, str] = MappingProxyType({TEXT: "score", TOKENS: "score"})
_ALL: Mapping[str, str] = MappingProxyType({**_BOTH, SPANS: "qa_outputs"})
_TWO_NAMES: Mapping[str, str] = MappingProxyType({TEXT: "score", TOKENS: "classifier"})
_THREE_NAMES: Mapping[str, str] = MappingProxyType({**_TWO_NAMES, SPANS: "qa_outputs"})
_TEXT_AND_SPANS: Mapping[str, str] = MappingProxyType({TEXT: "score", SPANS: "qa_outputs"})
_OLD = "transformer."
"""The prefix of names under the head of spans in most of Llama's line."""

DECODERS: Mapping[str, Decoder] = {
    "llama": Decoder("Llama", _ALL, span_base=_OLD),
    "mistral": Decoder("Mistral", _ALL),
    "ministral": Decoder("Ministral", _ALL, span_base=_OLD),
    "ministral3": Decoder("Ministral3", _ALL, 11),
    "mixtral": Decoder("Mixtral", _ALL),
    "qwen2": Decoder("Qwen2", _ALL, span_base=_OLD),
    "qwen3": Decoder("Qwen3", _ALL, span_base=_OLD),
    "smollm3": Decoder("SmolLM3", _ALL, 128004, span_base=_OLD),
    "olmo": Decoder("Olmo", _TEXT, 1),
    "olmo2": Decoder("Olmo2", _TEXT, 1),
    "olmo3": Decoder("Olmo3", _TEXT, 1),
    "olmoe": Decoder("Olmoe", _NONE),
    "flex_olmo": Decoder("FlexOlmo", _NONE),
    "gemma": Decoder("Gemma", _BOTH, 0),
    "gemma2": Decoder("Gemma2", _BOTH, 0),
    "vaultgemma": Decoder("VaultGemma", _NONE),
    "gemma3_text": Decoder("Gemma3Text", _TEXT, 0),
    "gemma3n_text": Decoder("Gemma3nText", _NONE),
    "gemma4_text": Decoder("Gemma4Text", _NONE),
    "gemma4_unified_text": Decoder("Gemma4UnifiedText", _NONE),
    "cohere": Decoder("Cohere", _NONE),
    "cohere2": Decoder("Cohere2", _NONE),
    "cohere_compass_text": Decoder("CohereCompassText", _TEXT, 0),
    "granite": Decoder("Granite", _NONE),
    "granite_swa": Decoder("GraniteSWA", _NONE),
    "hyperclovax": Decoder("HyperCLOVAX", _NONE),
    "granitemoe": Decoder("GraniteMoe", _NONE),
    "granitemoeshared": Decoder("GraniteMoeShared", _NONE),
    "granitemoe_swa": Decoder("GraniteMoeSWA", _NONE),
    "granitemoehybrid": Decoder("GraniteMoeHybrid", _NONE),
    "exaone4": Decoder("Exaone4", _ALL, span_base=_OLD),
    "gpt2": Decoder("GPT2", _THREE_NAMES),
    "imagegpt": Decoder("ImageGPT", _NONE),
    "gpt_bigcode": Decoder("GPTBigCode", _TWO_NAMES),
    "openai-gpt": Decoder("OpenAIGPT", _TEXT),
    "gpt_neo": Decoder("GPTNeo", _THREE_NAMES),
    "gptj": Decoder("GPTJ", _TEXT_AND_SPANS),
    "codegen": Decoder("CodeGen", _NONE),
    "gpt_neox": Decoder("GPTNeoX", _THREE_NAMES),
    "gpt_neox_japanese": Decoder("GPTNeoXJapanese", _NONE),
    "bloom": Decoder("Bloom", _THREE_NAMES),
    "opt": Decoder("OPT", _TEXT_AND_SPANS, 1),
    "mpt": Decoder("Mpt", _THREE_NAMES),
    "falcon": Decoder("Falcon", _THREE_NAMES),
    "ctrl": Decoder("CTRL", {TEXT: "classifier"}),
    "xglm": Decoder("XGLM", _NONE),
    "biogpt": Decoder("BioGpt", _TWO_NAMES, 1),
    "xlnet": Decoder("XLNet", _NONE),
    "xlm": Decoder("XLM", _NONE),
    "flaubert": Decoder("Flaubert", _NONE),
    "qwen2_moe": Decoder("Qwen2Moe", _ALL),
    "qwen3_moe": Decoder("Qwen3Moe", _ALL, span_base=_OLD),
    "dbrx": Decoder("Dbrx", _NONE),
    "phimoe": Decoder("Phimoe", _TEXT),
    "gpt_oss": Decoder("GptOss", _BOTH),
    "glm4_moe": Decoder("Glm4Moe", _NONE),
    "solar_open": Decoder("SolarOpen", _NONE),
    "dots1": Decoder("Dots1", _NONE),
    "exaone_moe": Decoder("ExaoneMoe", _NONE),
    "beam": Decoder("Beam", _NONE),
    "afmoe": Decoder("Afmoe", _NONE),
    "laguna": Decoder("Laguna", _NONE),
    "minimax_m2": Decoder("MiniMaxM2", _NONE),
    "minimax_m3_vl_text": Decoder("MiniMaxM3VLText", _NONE),
    "ernie4_5_moe": Decoder("Ernie4_5_Moe", _NONE),
    "llama4_text": Decoder("Llama4Text", _NONE),
    "cohere2_moe": Decoder("Cohere2Moe", _NONE),
    "mimo_v2_flash": Decoder("MiMoV2Flash", _NONE),
    "kolibri1": Decoder("Kolibri1", _NONE),
    "flint": Decoder("Flint", _NONE),
    "starcoder2": Decoder("Starcoder2", _BOTH),
    "phi3": Decoder("Phi3", _BOTH, 32000),
    "phi": Decoder("Phi", _BOTH),
    "stablelm": Decoder("StableLm", _BOTH),
    "glm": Decoder("Glm", _BOTH, 151329),
    "glm4": Decoder("Glm4", _BOTH, 151329),
    "helium": Decoder("Helium", _BOTH, 3),
    "ernie4_5": Decoder("Ernie4_5", _NONE),
    "seed_oss": Decoder("SeedOss", _ALL, 1, span_base=_OLD),
    "internlm3": Decoder("Llama", _NONE),
    "iquestcoder": Decoder("Llama", _NONE),
    "cwm": Decoder("Cwm", _NONE),
    "nemotron": Decoder("Nemotron", _ALL, span_base=_OLD),
    "jais2": Decoder("Jais2", _NONE),
    "arcee": Decoder("Arcee", _ALL, span_base=_OLD),
    "persimmon": Decoder("Persimmon", _BOTH),
    "apertus": Decoder("Apertus", {TOKENS: "score"}),
    "hunyuan_v1_dense": Decoder("HunYuanDenseV1", _TEXT, 0),
    "hunyuan_v1_moe": Decoder("HunYuanMoEV1", _TEXT, 0),
    "hy_v3": Decoder("HYV3", _NONE),
    "nanochat": Decoder("NanoChat", _NONE),
    "hrm_text": Decoder("HrmText", _NONE),
    "bitnet": Decoder("BitNet", _NONE),
    "diffllama": Decoder("DiffLlama", _ALL, span_base=_OLD),
    "mellum": Decoder("Mellum", _NONE),
    "deepseek_v3": Decoder("DeepseekV3", _BOTH),
    "deepseek_v2": Decoder("DeepseekV2", _TEXT),
    "glm4_moe_lite": Decoder("Glm4MoeLite", _NONE),
    "axk1": Decoder("AXK1", _BOTH),
    "axk2": Decoder("AXK2", _BOTH),
    "dots3_note_text": Decoder("Dots3NoteText", _NONE),
    "hy_v4": Decoder("HYV4", _NONE, prefixed=True),
    "deepseek_v32": Decoder("DeepseekV32", _NONE),
    "glm_moe_dsa": Decoder("GlmMoeDsa", _NONE),
    "deepseek_v4": Decoder("DeepseekV4", _NONE),
    "kimi_linear": Decoder("KimiLinear", _NONE),
    "bailing_hybrid": Decoder("BailingHybrid", _NONE, prefixed=True),
    "qwen3_next": Decoder("Qwen3Next", _ALL, span_base=_OLD),
    "qwen3_5_moe_text": Decoder("Qwen3_5MoeText", _NONE),
    "qwen3_5_text": Decoder("Qwen3_5Text", _TEXT),
    "minimax": Decoder("MiniMax", _ALL),
    "lfm2": Decoder("Lfm2", _NONE),
    "lfm2_moe": Decoder("Lfm2Moe", _NONE),
    "lfm3": Decoder("Lfm3", _NONE),
    "longcat_flash": Decoder("LongcatFlash", _NONE),
    "jetmoe": Decoder("JetMoe", _TEXT),
    "olmo_hybrid": Decoder("OlmoHybrid", _NONE),
    "mamba": Decoder("Mamba", _NONE),
    "falcon_mamba": Decoder("FalconMamba", _NONE),
    "mamba2": Decoder("Mamba2", _NONE),
    "bamba": Decoder("Bamba", _NONE),
    "falcon_h1": Decoder("FalconH1", _NONE),
    "jamba": Decoder("Jamba", _TEXT, 0),
    "zamba": Decoder("Zamba", _TEXT, 0),
    "zamba2": Decoder("Zamba2", _TEXT, 0),
    "xlstm": Decoder("xLSTM", _NONE),
    "rwkv": Decoder("Rwkv", _NONE),
    "recurrent_gemma": Decoder("RecurrentGemma", _NONE),
    "nemotron_h": Decoder("NemotronH", _NONE),
    "youtu": Decoder("Youtu", _NONE),
    "minicpm3": Decoder("MiniCPM3", _TEXT),
    "aria_text": Decoder("AriaText", _NONE),
    "mistral4": Decoder("Mistral4", _BOTH, 11),
}
"""Model type -> its classes beside the language model."""
