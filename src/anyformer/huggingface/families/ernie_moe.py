"""ERNIE 4.5 MoE: adjacent rotary pairs, biases everywhere or nowhere, softmax weights with a correction for the choice."""

from __future__ import annotations

from functools import partial
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import has_experts
from anyformer.huggingface.rules import Shaped, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.multi_token import apart, later_tokens
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, ROUTED, SHARED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Renormalise, Router, ScoreCorrectionBias, TopK, pre_norm

_CORRECTION = {"experts.router.correction": To("mlp.moe_statics.e_score_correction_bias", Shaped((1, -1)))}


def read(config: Config) -> Architecture:
    norm, bias = words.rms_norm(config, 1e-5), config("use_bias", False)
    rotary = words.rotary(config, theta=5e5, pairing="adjacent", rotate_in="fp32")
    heads = words.attention(config, kv_heads=4, bias=words.ALL if bias else (), rotary=rotary, dropout=0.0)
    dense = words.feedforward(config, width=12288, bias=bias)
    least = config("moe_norm_min", 1e-12, "experts.router.renormalise.least")
    router = Router(choice=TopK(correction=ScoreCorrectionBias()), renormalise=Renormalise(eps=0.0, least=least))
    keys: dict[str, Any] = {"counted": ("moe_num_experts",), "chosen_key": ("moe_k",)}
    experts = words.experts(config, router, count=64, chosen=6, width=1536, **keys)
    experts = words.shared_of(config, experts, 2, "moe_num_shared_experts", bias=dense.bias)
    layers = words.expert_layers(config, norm, lambda _: heads, experts, dense, _networks(config))
    # Baidu's FastDeploy computes the predictions: a dense layer, then the model's own last norm.
    later = pre_norm(norm, heads, dense)
    mtp = later_tokens(config, norm, later, layers[-1][1], shared_norm=True, bias=bias)
    return words.decoder(config, layers, norm, tied=True, mtp=mtp, bias=bias)


def _networks(config: Config) -> list[str]:
    """`experts` or `dense` for every layer: experts at an interval between two layers."""
    depth, step = config("num_hidden_layers"), config("moe_layer_interval", 1, _interval)
    start = config("moe_layer_start_index", 1, lambda target: _sparse(target)[0])
    end = config("moe_layer_end_index", -1, lambda target: _sparse(target)[-1])
    last = depth - 1 if end == -1 else end
    return ["experts" if (i + 1) % step == 0 and start <= i <= last else "dense" for i in range(depth)]


def _sparse(target: Target) -> list[int]:
    """The numbers of the layers with experts."""
    numbers = [i for i, sparse in enumerate(has_experts(target)) if sparse]
    if not numbers:
        raise MismatchError("no layer has experts")
    return numbers


def _interval(target: Target) -> int:
    """The interval of layers with experts; the number of the only one where there is one."""
    first, *others = _sparse(target)
    return others[0] - first if others else first + 1


_NAMES = decoder_names(ATTENTION, FEEDFORWARD, ROUTED, _CORRECTION, SHARED, NORMS)
_BESIDE = {
    "embedding_norm": "model.mtp_emb_norm.{i}",
    "hidden_norm": "model.mtp_hidden_norm.{i}",
    "projection": "model.mtp_linear_proj.{i}",
}
FAMILIES = (
    Family(
        "ernie4_5_moe",
        read,
        partial(apart, _NAMES, prefix="model.mtp_block.{i}.", beside=_BESIDE),
        "Ernie4_5_MoeForCausalLM",
        inert=("attention_dropout", "moe_capacity", "moe_gate", "moe_use_aux_free"),
        ignored=(r".*mtp.*",),
    ),
)
