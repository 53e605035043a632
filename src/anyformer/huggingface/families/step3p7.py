"""Step 3.7's text model: heads by type of layer, gates of heads, and networks that are bounded in some layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyformer.describe import change_all, get
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.rules import Table
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import NUMBERS, ValueKind
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, QK_NORM, decoder_names, shared_names
from anyformer.huggingface.words.networks import Side
from anyformer.model import Architecture
from anyformer.parts import Block, FeedForward, Gate, QKNorm, Rotary, pre_norm

_ROPE: Mapping[str, Mapping[str, Any]] = {kind: {"rope_type": "default", "rope_theta": 10_000.0} for kind in (FULL, SLIDING)}
_TYPES = {"full": FULL, "local": SLIDING}
_BOUNDS = ValueKind(
    "a list of numbers, null or 0 for no bound",
    lambda value: value is None or (isinstance(value, list | tuple) and NUMBERS.fits([each or 0 for each in value])),
)


def read(config: Config) -> Architecture:
    config.assume(vocab_size=128_815, hidden_size=4096, num_hidden_layers=45, num_attention_heads=64, intermediate_size=11_264)
    config.expect("gating", True, "per-head", why="every head has one gate")
    config.expect("use_bidirectional_attention", False)
    config.expect("num_nextn_predict_layers", 0, None, why="predictions of later tokens are not read here")
    config.expect_all(mtp_layer_types=None, mtp_mlp_layer_types=None)
    norm = words.rms_norm(config, 1e-5, gain="one_plus_weight", cast="after_gain")
    kinds, networks = words.windows(config, lambda i: FULL), words.mlp_types(config, 3)
    rotary = _rotary(config, kinds)
    heads = words.attention(config, kv_heads=8, head_width=128, gate=Gate(per="head"), qk_norm=QKNorm(norm=norm))
    width = heads.width_of_head(config("hidden_size"))
    config.expect("query_pre_attn_scalar", width, None, why="scores are divided by the root of a head's width")
    counts = {"full": heads.heads, "local": config("num_sliding_attention_heads", None, _local) or heads.heads}
    numbers = {str(i): {"num_attention_heads": counts["local"]} for i, kind in enumerate(kinds) if kind == "local"}
    config.expect("per_layer_config", numbers, why="heads differ by the type of layer alone")
    routed, always = (_bounds(config, key, place, kinds) for key, place in _CLAMPS.items())
    bounds = [(of if network == "experts" else None, own) for network, of, own in zip(networks, routed, always, strict=True)]
    called = {f"bounds{i}": pair for i, pair in enumerate(dict.fromkeys(bounds))}

    bias: tuple[Side, ...] = ("gate", "up", "down") if config("mlp_bias", False) else ()
    dense = FeedForward(width=config("intermediate_size"), activation="silu", bias=bias)
    router = words.sigmoid_router(config, renormalise=words.EXACT, key="moe_router_scaling_factor")
    counted = ("n_routed_experts", "num_local_experts")
    experts = words.experts(config, router, count=288, chosen=8, width=1280, counted=counted, activation="silu")
    experts = words.shared_of_width(config, experts, 1280, "share_expert_dim", bias=dense.bias)

    def block(kind: str, network: str, bound: str) -> Block:
        attention = heads.but(heads=counts[kind], rotary=rotary[kind], mask=words.mask(config, kind))
        of, own = (_clamp(value) for value in called[bound])
        if network == "dense":
            return pre_norm(norm, attention, dense.but(**own))
        return pre_norm(norm, attention, change_all(experts, {f"shared.feedforward.{k}": v for k, v in own.items()}).but(**of))

    names = {pair: name for name, pair in called.items()}
    return words.decoder(config, words.layered(block, kinds, networks, [names[pair] for pair in bounds]), norm)


def _rotary(config: Config, kinds: Sequence[str]) -> dict[str, Rotary]:
    """The rotary positions of each of `kinds`; refuses a type of layer without a table, beside which its class reads none."""
    found, types = words.shares_by_type(config, _ROPE), {kind: _TYPES[kind] for kind in kinds}
    absent = sorted(set(types.values()) - set(found))
    if absent:
        raise HuggingFaceError(
            f"{config.where}: rope_parameters has no table for {' and '.join(absent)}, and transformers then reads none of its "
            f"tables: give one per type of layer, or leave the key out"
        )
    return {kind: found[name] for kind, name in types.items()}


def _clamp(bound: float | None) -> dict[str, Any]:
    return {} if bound is None else {"clamp": bound, "clamp_at": "after_activation"}


def _bounds(config: Config, key: str, places: Sequence[str], layers: Sequence[str]) -> list[float | None]:
    """The bound of each layer by a key; None without one."""

    def written(target: Target) -> list[float]:
        found = [[get(block, path) for path in places if path.split(".")[0] in block.branches] for block in target.blocks]
        return [float((each or [None])[0] or 0.0) for each in found]

    listed = config(key, None, written, kind=_BOUNDS)
    if listed is not None and len(listed) != len(layers):
        raise HuggingFaceError(f"{config.where}: {key} has {len(listed)} entries for {len(layers)} layers")
    return [float(each) if each else None for each in listed or [0.0] * len(layers)]


def _local(target: Target) -> int | None:
    """The number of heads of layers with a window."""
    counts = [
        heads for heads, mask in zip(target.each("attention.heads"), target.each("attention.mask"), strict=True) if mask.window
    ]
    return counts[0] if counts else None


_CLAMPS = {
    "swiglu_limits": ("experts.clamp",),
    "swiglu_limits_shared": ("experts.shared.feedforward.clamp", "feedforward.clamp"),
}
"""Key -> the places of its bounds: of the experts that are chosen, and of the shared one or a dense network."""
_NAMES: Table = {
    **QK_NORM,
    "attention.gate.projection": "self_attn.g_proj",
    "experts.router": "moe.gate",
    "experts.router.correction": "moe.router_bias",
    **{f"experts.{side}": f"moe.{side}_proj.weight" for side in ("gate", "up", "down")},
    **shared_names("share_expert"),
}
FAMILIES = (
    Family(
        "step3p5",
        read,
        decoder_names(ATTENTION, FEEDFORWARD, NORMS, _NAMES),
        "Step3p7ForConditionalGeneration",
        inert=("hidden_act",),  # which its class sets to silu whatever it is
    ),
)
