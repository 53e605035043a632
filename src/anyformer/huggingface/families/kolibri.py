"""Kolibri 1 and Flint: rotary positions in windows only, sigmoid routers; sandwich norms, or sinks."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.rules import Table
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, QK_NORM, ROUTED, decoder_names, shared_names
from anyformer.model import Architecture
from anyformer.parts import Attention, Experts, QKNorm, RMSNorm, Router, ScoreCorrectionBias, TopK, sandwich

_KOLIBRI: Table = {
    "attention.norm_before": "input_layernorm",
    "attention.norm_after": "post_attn_norm",
    "experts.norm_before": "post_attention_layernorm",
    "experts.norm_after": "post_ffn_norm",
    "experts.router.correction": "moe.router.expert_bias",
    **shared_names("mlp.shared_experts"),
}
_FLINT: Table = {"attention.sink": "self_attn.softmax_offset", **shared_names("mlp.shared_expert")}


def read_kolibri(config: Config) -> Architecture:
    norm, heads = words.rms_norm(config), _heads(config, words.rms_norm(config), bias=())
    choice = TopK(by="logits", correction=ScoreCorrectionBias())
    experts = _experts(config, choice, count=384, shared=512, renormalises=False)
    layers = words.layered(lambda kind: sandwich(norm, heads[kind], experts), words.windows(config, words.every(5)))
    return words.decoder(config, layers, norm)


def read_flint(config: Config) -> Architecture:
    norm, depth = words.rms_norm(config, cast="after_gain"), config("num_hidden_layers")
    heads = _heads(config, norm, sink="head")
    experts = _experts(config, TopK(), count=256, shared=1024, renormalises=True)
    dense = words.feedforward(config, width=6144)
    kinds = words.windows(config, lambda i: FULL if i < 2 or i % 4 == 1 or i == depth - 1 else SLIDING)
    networks = words.sparse_layers(config, (0, 1))
    layers = words.expert_layers(config, norm, lambda kind, _: heads[kind], experts, dense, kinds, networks)
    return words.decoder(config, layers, norm)


def _heads(config: Config, norm: RMSNorm, **fields: Any) -> dict[str, Attention]:
    """The attention of `full` and of `local` layers."""
    config.assume(sliding_window=513)
    full = words.attention(config, kv_heads=4, head_width=128, qk_norm=QKNorm(norm=norm), **fields)
    return {"full": full, "local": full.but(rotary=words.rotary(config), mask=words.mask(config, "local"))}


def _experts(config: Config, choice: TopK, *, count: int, shared: int, renormalises: bool) -> Experts:
    router = Router(score="sigmoid", choice=choice, renormalise=words.renormalised(config, renormalises))
    return words.shared_of_width(config, words.experts(config, router, count=count, chosen=6, width=512), shared)


FAMILIES = (
    Family("kolibri1", read_kolibri, decoder_names(ATTENTION, QK_NORM, ROUTED, _KOLIBRI), "Kolibri1ForCausalLM"),
    Family("flint", read_flint, decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, ROUTED, NORMS, _FLINT), "FlintForCausalLM"),
)
