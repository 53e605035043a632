"""RecurrentGemma: two RG-LRU layers to one of local attention, a network after each (arXiv 2404.07839)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Shaped, Table, Then, To, Transposed
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.words.heads import QKV
from anyformer.huggingface.words.names import convolution, decoder_names, gated_names, projections
from anyformer.model import Architecture
from anyformer.parts import RGLRU, Attention, ShortConvolution, Window, pre_norm

LRU = "rg_lru"
_BRANCHES = {LRU: "recurrent", "attention": "attention"}
"""Our branch -> the word of `block_types`."""
_TANH = "gelu_pytorch_tanh"


def read(config: Config) -> Architecture:
    config.assume(vocab_size=256_000, hidden_size=2560, num_hidden_layers=26)
    norm = words.rms_norm(config, gain="one_plus_weight", cast="after_gain")
    doubled = config("intermediate_size", 7680, lambda target: 2 * target("feedforward.width"))
    network = words.feedforward(config, "hidden_activation", _TANH, size=None, width=doubled // 2, bias=True)
    parts: dict[str, Any] = {"attention": _heads(config), "recurrent": _recurrent(config, network.activation)}
    layers = words.layered(lambda kind: pre_norm(norm, parts[kind], network), _types(config))
    # transformers keeps the factor of the embeddings in bf16.
    scale = _in_bf16(config("hidden_size") ** 0.5)
    softcap = config("logits_soft_cap", 30.0, "head.softcap")
    return words.decoder(config, layers, norm, tied=True, length=None, embedding_scale=scale, softcap=softcap)


def _in_bf16(number: float) -> float:
    """The nearest number above 0 of bf16, which has 8 significant bits."""
    fraction, exponent = math.frexp(number)
    return math.ldexp(round(fraction * 2**8), exponent - 8)


def _heads(config: Config) -> Attention:
    bias = QKV if config("attention_bias", False, lambda target: "query" in target("attention.bias")) else ()
    size = config("attention_window_size", 2048, lambda target: target("attention.mask").window)
    rotary = words.rotary(config, fraction=0.5)
    heads = words.attention(config, heads=10, rotary=rotary, mask=Window(size=size), bias=(*bias, "output"))
    if heads.head_width not in (None, config("hidden_size") // heads.heads):
        raise HuggingFaceError(f"{config.where}: head_dim = {heads.head_width} should be hidden_size / num_attention_heads")
    return heads


def _recurrent(config: Config, activation: str) -> RGLRU:
    width = config("lru_width", None, f"{LRU}.channels")
    kernel = config("conv1d_width", 4, f"{LRU}.convolution.kernel")
    return RGLRU(
        channels=width or config("hidden_size"),
        heads=config("num_attention_heads", 10),
        convolution=ShortConvolution(kernel=kernel, bias=True),
        activation=activation,
        bias=("gate", "value", "output"),
    )


def _types(config: Config) -> list[str]:
    """The type of each layer: `block_types`, again and again."""
    depth = config("num_hidden_layers")
    period: Sequence[str] = config("block_types", ("recurrent", "recurrent", "attention"), _period)
    unknown = sorted(set(period) - set(_BRANCHES.values()))
    if unknown or not period:
        raise HuggingFaceError(f"{config.where}: block_types should hold recurrent and attention, got {', '.join(unknown)}")
    config("layers_block_type", None, nowhere)
    return [period[i % len(period)] for i in range(depth)]


def _period(target: Target) -> list[str]:
    return target.branches(_BRANCHES)


def names(architecture: Architecture) -> Names:
    target = Target(architecture)
    kernel, heads = target.get(f"{LRU}.convolution.kernel", 0), target.get(f"{LRU}.heads", 1)
    each = target.get(f"{LRU}.channels", 1) // heads
    theirs = "temporal_block"
    lru: Table = {
        f"{LRU}.gate": f"{theirs}.linear_y",
        f"{LRU}.value": f"{theirs}.linear_x",
        f"{LRU}.output": f"{theirs}.linear_out",
        f"{LRU}.convolution.weight": To(f"{theirs}.conv_1d.weight", convolution(kernel)),
        f"{LRU}.convolution.bias": f"{theirs}.conv_1d.bias",
        f"{LRU}.decay": f"{theirs}.rg_lru.recurrent_param",
    }
    for ours, gate in (("input_gate", "input_gate"), ("decay_gate", "recurrent_gate")):
        square = Then(Transposed(), Shaped((heads, each, each)))
        lru = {
            **lru,
            f"{LRU}.{ours}.weight": To(f"{theirs}.rg_lru.{gate}_weight", square),
            f"{LRU}.{ours}.bias": To(f"{theirs}.rg_lru.{gate}_bias", Shaped((heads, each))),
        }
    norms = {
        **{f"{branch}.norm_before": "temporal_pre_norm" for branch in _BRANCHES},
        "feedforward.norm_before": "channel_pre_norm",
    }
    outside = {"embedding": "model.embed_tokens", "decoder.final_norm": "model.final_norm", "head": "lm_head"}
    return decoder_names(projections(f"{theirs}.*_proj"), lru, gated_names("mlp_block"), norms, outside=outside)


_INERT = ("final_w_init_variance_scale", "layer_types", "w_init_variance_scale")
FAMILIES = (Family("recurrent_gemma", read, names, "RecurrentGemmaForCausalLM", inert=_INERT),)
