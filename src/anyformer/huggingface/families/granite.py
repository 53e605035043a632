"""Granite: Llama with its scales as numbers; Granite-SWA: windows, sinks, a theta by layer; HyperCLOVA X: norms after too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING, there
from anyformer.huggingface.target import Target
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
    norm, rotary, depth = words.rms_norm(config), words.rotary(config), config("num_hidden_layers")
    thetas: Sequence[float] = config("layer_rope_theta", None, _thetas) or [rotary.theta] * depth
    if len(thetas) != depth:
        raise HuggingFaceError(f"{config.where}: layer_rope_theta has {len(thetas)} entries for {depth} layers")
    heads = words.attention(config, kv_heads=4, scale=config("attention_multiplier", 1.0), sink="head")
    placed = {f"{theta:g}" if theta else "nope": rotary.but(theta=float(theta)) if theta else None for theta in thetas}

    def block(kind: str, theta: str) -> Block:
        return _block(config, norm, heads.but(mask=words.mask(config, kind), rotary=placed[theta]))

    seen = words.windows(config, lambda layer: SLIDING if layer % 4 else FULL)
    layers = words.layered(block, seen, [f"{theta:g}" if theta else "nope" for theta in thetas])
    return _model(config, [(name.replace(".", "_"), each) for name, each in layers], norm, words.logits_divided(config))


def read_clova(config: Config) -> Architecture:
    norm, scale = words.rms_norm(config), config("attention_multiplier", None, "attention.scale")
    wired = sandwich if config("use_post_norm", True, there("attention.norm_after")) else pre_norm
    block = _block(config, norm, words.attention(config, rotary=words.rotary(config), scale=scale), wired)
    return _model(config, words.repeated(config, block), norm, config("logits_scaling", 1.0, "head.scale"))


def _thetas(target: Target) -> list[float]:
    return [0 if rotary is None else rotary.theta for rotary in target.each("attention.rotary")]


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
