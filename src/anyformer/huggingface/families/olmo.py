"""OLMo: norms without a gain; 2: norms after branches and of whole projections; 3: windows; OLMoE, FlexOlmo: experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.words.names import AFTER, ATTENTION, FEEDFORWARD, NORMS, QK_NORM, ROUTED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Block, LayerNorm, QKNorm, RMSNorm, Rotary, output_norm, pre_norm


def read(config: Config) -> Architecture:
    norm = LayerNorm(eps=1e-5, gain="none", bias=False)
    heads = words.attention(config, rotary=words.rotary(config, rotate_in="fp32"), clip=config("clip_qkv", None))
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, words.feedforward(config))), norm)


def read2(config: Config) -> Architecture:
    rotary = words.rotary(config, rotate_in="fp32")
    return _output_normed(config, ["full"] * config("num_hidden_layers"), {"full": rotary})


def read3(config: Config) -> Architecture:
    config.assume(sliding_window=4096)
    kinds = words.windows(config, words.every(4))
    # Where this key is given, transformers 5 gives sliding layers its own default all the same.
    config.expect("rope_theta", 500_000.0, why="spell rope_parameters by layer type")
    tables = words.tables_by_type(config, {FULL: 500_000.0, SLIDING: 500_000.0})
    rotary = {kind: words.from_table(table, unread=("truncate",), rotate_in="fp32") for kind, table in tables.items()}
    return _output_normed(config, kinds, {"full": rotary[FULL], "local": rotary[SLIDING]})


def _output_normed(config: Config, kinds: Sequence[str], rotary: Mapping[str, Rotary]) -> Architecture:
    norm, network = words.rms_norm(config, 1e-5, cast="after_gain"), words.feedforward(config)
    heads = words.attention(config, qk_norm=QKNorm(norm=norm, over="projection"))

    def block(kind: str) -> Block:
        return output_norm(norm, heads.but(mask=words.mask(config, kind), rotary=rotary[kind]), network)

    return words.decoder(config, words.layered(block, kinds), norm)


def read_moe(config: Config) -> Architecture:
    config.expect("clip_qkv", None, why="it bounds queries and keys after their norm, here they are bounded before it")
    return _with_experts(config, pre_norm, words.rms_norm(config, 1e-5), words.rotary(config), count=64, chosen=8)


def read_flex(config: Config) -> Architecture:
    norm = words.rms_norm(config, cast="after_gain")
    return _with_experts(config, output_norm, norm, words.rotary(config, theta=5e5, rotate_in="fp32"), count=7, chosen=5)


def _with_experts(config: Config, wired: Any, norm: RMSNorm, rotary: Rotary, **absent: Any) -> Architecture:
    heads = words.attention(config, qk_norm=QKNorm(norm=norm, over="projection"), rotary=rotary)
    router = words.softmax_router(config, renormalises=False)
    experts = words.experts(config, router, size="intermediate_size", **absent)
    return words.decoder(config, words.repeated(config, wired(norm, heads, experts)), norm)


_NAMES = decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, AFTER)
FAMILIES = (
    Family("olmo", read, decoder_names(ATTENTION, FEEDFORWARD), "OlmoForCausalLM"),
    Family("olmo2", read2, _NAMES, "Olmo2ForCausalLM"),
    Family("olmo3", read3, _NAMES, "Olmo3ForCausalLM"),
    Family("olmoe", read_moe, decoder_names(ATTENTION, QK_NORM, ROUTED, NORMS), "OlmoeForCausalLM"),
    Family("flex_olmo", read_flex, decoder_names(ATTENTION, QK_NORM, ROUTED, AFTER), "FlexOlmoForCausalLM"),
)
