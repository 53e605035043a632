"""Granite: Llama with its scales as numbers; Granite-SWA: windows, sinks, a theta by layer; HyperCLOVA X: norms after too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config, HuggingFaceError
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, block, each, feedforward, kind, masked
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import FULL, SLIDING, read_rotary, rope_parameters
from anyformer.model import Architecture
from anyformer.parts import Attention, RMSNorm

SINKS: Table = {"attention.sink": "self_attn.sinks"}
POST_NORMS: Table = {"attention.norm_after": "post_norm1", "feedforward.norm_after": "post_norm2"}


def read(config: Config) -> Architecture:
    heads = attention(config, rotary=read_rotary(rope_parameters(config)), scale=config("attention_multiplier", 1.0))
    layers = [("layer", heads)] * config("num_hidden_layers")
    return _model(config, layers, head_scale=1 / config("logits_scaling", 1.0))


def write(architecture: Architecture) -> dict[str, Any]:
    return {
        **_write(architecture),
        "attention_multiplier": decoder.scale(architecture),
        "logits_scaling": decoder.inverse(get(architecture, "head.scale")),
    }


def read_swa(config: Config) -> Architecture:
    depth = config("num_hidden_layers")
    config.assume(num_key_value_heads=4, rms_norm_eps=1e-5, tie_word_embeddings=True, sliding_window=128)
    rotary = read_rotary(rope_parameters(config))
    thetas: Sequence[float] = config("layer_rope_theta", None) or [rotary.theta] * depth
    if len(thetas) != depth:
        raise HuggingFaceError(f"{config.where}: layer_rope_theta has {len(thetas)} entries for {depth} layers")
    windows = decoder.windows(config, [SLIDING if layer % 4 else FULL for layer in range(depth)])
    scale = config("attention_multiplier", 1.0)
    layers = []
    for window, theta in zip(windows, thetas, strict=True):
        placed = rotary.but(theta=float(theta)) if theta else None
        heads = attention(config, rotary=placed, mask=masked(window), scale=scale, sink="head")
        layers.append((f"{kind(window)}_{theta:g}" if theta else f"{kind(window)}_nope", heads))
    return _model(config, layers, head_scale=1 / config("logits_scaling", 1.0))


def write_swa(architecture: Architecture) -> dict[str, Any]:
    thetas = [rotary.theta if rotary is not None else 0 for rotary in each(architecture, "attention.rotary")]
    return {**write(architecture), **decoder.write_windows(architecture, 128), "layer_rope_theta": thetas}


def read_clova(config: Config) -> Architecture:
    heads = attention(config, rotary=read_rotary(rope_parameters(config)), scale=config("attention_multiplier", None))
    layers = [("layer", heads)] * config("num_hidden_layers")
    return _model(config, layers, head_scale=config("logits_scaling", 1.0), norm_after=config("use_post_norm", True))


def write_clova(architecture: Architecture) -> dict[str, Any]:
    return {
        **_write(architecture),
        "attention_multiplier": each(architecture, "attention.scale")[0],
        "logits_scaling": get(architecture, "head.scale"),
        "use_post_norm": get(architecture, "decoder.layer.attention.norm_after") is not None,
    }


def _model(
    config: Config, layers: Sequence[tuple[str, Attention]], *, head_scale: float, norm_after: bool = False
) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6))
    network = feedforward(config, bias=config("mlp_bias", False))
    multiplier = config("residual_multiplier", 1.0)
    blocks = [
        (name, block(heads, network, before=norm, after=norm if norm_after else None, multiplier=multiplier))
        for name, heads in layers
    ]
    return decoder.model(config, blocks, norm, embedding_scale=config("embedding_multiplier", 1.0), scale=head_scale)


def _write(architecture: Architecture) -> dict[str, Any]:
    return {
        **decoder.write(architecture),
        "attention_bias": decoder.biased(architecture),
        "mlp_bias": decoder.biased(architecture, "feedforward"),
        "embedding_multiplier": get(architecture, "embedding.scale"),
        "residual_multiplier": each(architecture, "attention.multiplier")[0],
    }


def names(architecture: Architecture) -> Names:
    return decoder_names(ATTENTION, SINKS, FEEDFORWARD, NORMS, POST_NORMS)


FAMILIES = (
    Family("granite", read, write, names, "GraniteForCausalLM", ignored=BUFFERS),
    Family("granite_swa", read_swa, write_swa, names, "GraniteSWAForCausalLM", ignored=BUFFERS),
    Family("hyperclovax", read_clova, write_clova, names, "HyperCLOVAXForCausalLM", ignored=BUFFERS),
)
