"""Granite MoE: Granite's four multipliers, a softmax over the experts chosen; with a shared expert, and windows and sinks."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.rules import Rows, Table, To
from anyformer.huggingface.vocabulary import POSITIVE
from anyformer.huggingface.words.layers import Layers
from anyformer.huggingface.words.names import ATTENTION, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, Experts, Router, pre_norm

_FUSED: Table = {
    "experts.router": "block_sparse_moe.router.layer",
    ("experts.gate", "experts.up"): To("block_sparse_moe.input_linear.weight", Rows(dim=1)),
    "experts.down": "block_sparse_moe.output_linear.weight",
}
_SHARED: Table = {
    ("experts.shared.gate", "experts.shared.up"): To("shared_mlp.input_linear", Rows()),
    "experts.shared.down": "shared_mlp.output_linear",
}


def read(config: Config) -> Architecture:
    return _model(config, words.repeated(config, _block(config, _heads(config, rotary=words.rotary(config)), _experts(config))))


def read_shared(config: Config) -> Architecture:
    experts = words.shared_of_width(config, _experts(config), 0, "shared_intermediate_size")
    return _model(config, words.repeated(config, _block(config, _heads(config, rotary=words.rotary(config)), experts)))


def read_swa(config: Config) -> Architecture:
    config.assume(sliding_window=128)
    experts = words.shared_of_width(config, _experts(config), 0, "shared_intermediate_size")
    heads, (bases, rotary) = _heads(config, sink="head"), words.rotary_by_layer(config)

    def block(kind: str, base: str) -> Block:
        return _block(config, heads.but(mask=words.mask(config, kind), rotary=rotary[base]), experts)

    seen = words.windows(config, lambda layer: SLIDING if layer % 4 else FULL)
    return _model(config, words.layered(block, seen, bases))


def _heads(config: Config, **fields: Any) -> Attention:
    return words.attention(config, scale=config("attention_multiplier", 1.0, kind=POSITIVE), **fields)


def _experts(config: Config) -> Experts:
    router, counted = Router(over="chosen"), ("num_local_experts",)
    return words.experts(config, router, count=8, chosen=2, counted=counted, size="intermediate_size")


def _block(config: Config, heads: Attention, experts: Experts) -> Block:
    return words.multiplied(pre_norm(words.rms_norm(config), heads, experts), float(config("residual_multiplier", 1.0)))


def _model(config: Config, layers: Layers) -> Architecture:
    norm, embedding_scale = words.rms_norm(config), float(config("embedding_multiplier", 1.0))
    return words.decoder(config, layers, norm, embedding_scale=embedding_scale, scale=words.logits_divided(config))


_PLAIN: Table = {
    "experts.router": "block_sparse_moe.router",
    ("experts.gate", "experts.up"): To("block_sparse_moe.experts.gate_up_proj", Rows(dim=1)),
    "experts.down": "block_sparse_moe.experts.down_proj",
    "attention.sink": "self_attn.sinks",
}
_NAMES = decoder_names(ATTENTION, _FUSED, _SHARED, NORMS)
FAMILIES = (
    Family("granitemoe", read, _NAMES, "GraniteMoeForCausalLM"),
    Family("granitemoeshared", read_shared, _NAMES, "GraniteMoeSharedForCausalLM"),
    Family("granitemoe_swa", read_swa, decoder_names(ATTENTION, _PLAIN, _SHARED, NORMS), "GraniteMoeSWAForCausalLM"),
)
