"""Qwen3-Next and the language models of Qwen3.5: gated delta nets, gated attention in every few layers; experts or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL
from anyformer.huggingface.rules import GroupedRows, Names, Table, To
from anyformer.huggingface.words import DELTA
from anyformer.huggingface.words.multi_token import apart, later_tokens
from anyformer.huggingface.words.names import decoder_names
from anyformer.huggingface.words.qwen_line import BETA, DECAY, GATE, QKV, gated_attention, gated_experts, layer_names, separate
from anyformer.model import Architecture
from anyformer.parts import pre_norm


def read_next(config: Config) -> Architecture:
    config.assume(vocab_size=151_936, hidden_size=2048, num_hidden_layers=48)
    experts = gated_experts(config, count=512, chosen=10, renormalises=config("norm_topk_prob", True))
    networks = {"experts": experts, "dense": words.feedforward(config, width=5632)}
    return _read(config, networks, words.sparse_layers(config), kv_heads=2, key="num_nextn_predict_layers")


def read_moe(config: Config) -> Architecture:
    config.assume(vocab_size=248_320, hidden_size=2048, num_hidden_layers=40)
    experts = gated_experts(config, count=256, chosen=8, renormalises=True)
    return _read(config, {"experts": experts}, ["experts"] * config("num_hidden_layers"), kv_heads=2)


def read_dense(config: Config) -> Architecture:
    config.assume(vocab_size=248_320, hidden_size=4096, num_hidden_layers=32)
    networks = {"dense": words.feedforward(config, width=12288)}
    return _read(config, networks, ["dense"] * config("num_hidden_layers"), kv_heads=4)


def _read(
    config: Config, networks: Mapping[str, Any], mlps: list[str], *, kv_heads: int, key: str = "mtp_num_hidden_layers"
) -> Architecture:
    """The model; `key`: the number of predictions of later tokens, whose layer has full attention and the first network."""
    config.expect_all(use_sliding_window=False, mtp_use_dedicated_embeddings=False)
    norm = words.rms_norm(config, gain="one_plus_weight", cast="after_gain")
    parts: dict[str, Any] = {
        "full": gated_attention(config, norm, kv_heads),
        "linear": words.gated_delta_net(config, eps=norm.eps),
    }
    interval, branches = config("full_attention_interval", 4), {DELTA: "linear_attention", "attention": FULL}
    mixers = words.mixers(config, lambda i: "linear_attention" if (i + 1) % interval else FULL, branches)
    layers = words.layered(lambda mixer, mlp: pre_norm(norm, parts[mixer], networks[mlp]), mixers, mlps)
    block = pre_norm(norm, parts["full"], next(iter(networks.values())))
    return words.decoder(config, layers, norm, mtp=later_tokens(config, norm, block, layers[-1][1], key=key, most=1))


def _grouped(heads: int) -> Table:
    """Projections of Qwen3-Next: fused, grouped by key heads."""
    return {
        (*QKV, GATE): To("linear_attn.in_proj_qkvz", GroupedRows(heads)),
        (BETA, DECAY): To("linear_attn.in_proj_ba", GroupedRows(heads)),
    }


def _names(projections: Callable[[int], Table], architecture: Architecture) -> Names:
    made = decoder_names(layer_names(projections, architecture))
    return apart(made, architecture, "mtp.layers.{i}.", _BESIDE)


_BESIDE = {
    "embedding_norm": "mtp.pre_fc_norm_embedding",
    "hidden_norm": "mtp.pre_fc_norm_hidden",
    "projection": "mtp.fc",
    "final_norm": "mtp.norm",
}
"""Names beside the one layer that predicts later tokens."""
_TOLD = {"mtp.fc.weight": ("num_nextn_predict_layers", 1)}
"""Published configurations of Qwen3-Next do not say that the files hold a module."""
_IGNORED = (r"mtp\..*",)
FAMILIES = (
    Family("qwen3_next", read_next, partial(_names, _grouped), "Qwen3NextForCausalLM", ignored=_IGNORED, told=_TOLD),
    Family("qwen3_5_moe_text", read_moe, partial(_names, separate), "Qwen3_5MoeForCausalLM", ignored=_IGNORED),
    Family("qwen3_5_text", read_dense, partial(_names, separate), "Qwen3_5ForCausalLM", ignored=_IGNORED),
)
