"""Granite: Llama with its scales as numbers; Granite-SWA: windows, sinks, a theta by layer; HyperCLOVA X: norms after too."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING, there
from anyformer.huggingface.words.layers import Layers
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, SINKS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, RMSNorm, pre_norm, sandwich


def read(config: Config) -> Architecture:
    norm, scale = words.rms_norm(config), config("attention_multiplier", 1.0)
    block = _block(config, norm, words.attention(config, rotary=words.rotary(config), scale=scale))
    return _model(config, words.repeated(config, block), norm, words.logits_divided(config))


def read_swa(config: Config) -> Architecture:
    config.assume(rms_norm_eps=1e-5, tie_word_embeddings=True, sliding_window=128)
    norm, (bases, rotary) = words.rms_norm(config), words.rotary_by_layer(config)
    heads = words.attention(config, kv_heads=4, scale=config("attention_multiplier", 1.0), sink="head")

    def block(kind: str, base: str) -> Block:
        return _block(config, norm, heads.but(mask=words.mask(config, kind), rotary=rotary[base]))

    layers = words.layered(block, words.windows(config, lambda layer: SLIDING if layer % 4 else FULL), bases)
    return _model(config, layers, norm, words.logits_divided(config))


def read_clova(config: Config) -> Architecture:
    norm, scale = words.rms_norm(config), config("attention_multiplier", None, "attention.scale")
    wired = sandwich if config("use_post_norm", True, there("attention.norm_after")) else pre_norm
    block = _block(config, norm, words.attention(config, rotary=words.rotary(config), scale=scale), wired)
    return _model(config, words.repeated(config, block), norm, config("logits_scaling", 1.0, "head.scale"))


def _block(config: Config, norm: RMSNorm, heads: Attention, wired: Any = pre_norm) -> Block:
    network = words.feedforward(config, bias=config("mlp_bias", False))
    return words.multiplied(wired(norm, heads, network), config("residual_multiplier", 1.0))


def _model(config: Config, layers: Layers, norm: RMSNorm, scale: float) -> Architecture:
    return words.decoder(config, layers, norm, embedding_scale=config("embedding_multiplier", 1.0), scale=scale)


_AFTER = {"attention.norm_after": "post_norm1", "feedforward.norm_after": "post_norm2"}
_NAMES = decoder_names(ATTENTION, SINKS, FEEDFORWARD, NORMS, _AFTER)
FAMILIES = (
    Family("granite", read, _NAMES, "GraniteForCausalLM"),
    Family("granite_swa", read_swa, _NAMES, "GraniteSWAForCausalLM"),
    Family("hyperclovax", read_clova, _NAMES, "HyperCLOVAXForCausalLM"),
)
