"""Jamba: Mamba in most layers, attention without positions in some, experts in every few (arXiv 2403.19887)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import has_experts
from anyformer.huggingface.rules import Names
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import ATTENTION, OUTSIDE, decoder_names, gated_names, one_by_one
from anyformer.huggingface.words.state_space import KERNELS, MAMBA, mamba, mamba_names
from anyformer.model import Architecture
from anyformer.parts import Router, pre_norm


def read(config: Config) -> Architecture:
    config.assume(vocab_size=65_536, hidden_size=4096, num_hidden_layers=32, intermediate_size=14_336)
    norm = words.rms_norm(config)
    keys = {"state_width": "mamba_d_state", "expand": "mamba_expand", "kernel": "mamba_d_conv"}
    biased = ("mamba_proj_bias", "mamba_conv_bias")
    parts: dict[str, Any] = {
        "mamba": mamba(config, keys=keys, rank_key="mamba_dt_rank", biased=biased, inner_norm=norm),
        "attention": words.attention(config, heads=32, kv_heads=8, bias=()),
        "dense": words.feedforward(config),
    }
    count = config("num_experts", 16, lambda target: target.get("experts.experts", 1))
    if count > 1:
        parts["experts"] = words.experts(config, Router(), chosen=2, counted=("num_experts",), size="intermediate_size")
    else:
        config("num_experts_per_tok", 2)
    mixers = _every(config, "attn_layer", ("mamba", "attention"), (8, 4), _attends)
    mlps = _every(config, "expert_layer", ("dense", "experts"), (2, 1), has_experts)
    mlps = mlps if count > 1 else ["dense"] * len(mlps)
    return words.decoder(config, words.layered(lambda *kinds: pre_norm(norm, *(parts[k] for k in kinds)), mixers, mlps), norm)


def _every(
    config: Config, key: str, kinds: tuple[str, str], usual: tuple[int, int], at: Callable[[Target], list[bool]]
) -> list[str]:
    """The second kind for layer i if i % period = offset, else the first, by the keys `..._period` and `..._offset`."""
    period = config(f"{key}_period", usual[0], lambda target: cycle(at(target))[0])
    offset = config(f"{key}_offset", usual[1], lambda target: cycle(at(target))[1])
    return [kinds[i % period == offset] for i in range(config("num_hidden_layers"))]


def cycle(chosen: Sequence[bool]) -> tuple[int, int]:
    """(period, offset) by which these layers are chosen; `MismatchError` where they follow none."""
    depth, numbers = len(chosen), [i for i, is_chosen in enumerate(chosen) if is_chosen]
    first = numbers[0] if numbers else depth
    period = numbers[1] - first if len(numbers) > 1 else max(first + 1, depth - first)
    if first >= period or numbers != [i for i in range(depth) if i % period == first]:
        raise MismatchError(f"layers {numbers} of {depth} are not every n-th from one of the first n on")
    return period, first


def _attends(target: Target) -> list[bool]:
    return ["attention" in block.branches for block in target.blocks]


_OWN = {
    "attention.norm_before": "input_layernorm",
    f"{MAMBA}.norm_before": "input_layernorm",
    "feedforward.norm_before": "pre_ff_layernorm",
    "experts.norm_before": "pre_ff_layernorm",
    "experts.router": "feed_forward.router",
    **one_by_one("feed_forward.experts"),
}
_OUTSIDE = {**OUTSIDE, "decoder.final_norm": "model.final_layernorm"}


def names(architecture: Architecture) -> Names:
    return decoder_names(ATTENTION, gated_names("feed_forward"), _OWN, mamba_names(architecture, "mamba"), outside=_OUTSIDE)


_INERT = (
    *KERNELS,
    "calc_logits_for_entire_prompt",
    "layer_types",
    "layers_block_type",
    "layers_num_experts",
    "num_logits_to_keep",
)
FAMILIES = (Family("jamba", read, names, "JambaForCausalLM", inert=_INERT),)
