"""Layers that differ: lists of their types, windows, experts, and the names of their variants."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyformer.huggingface.config import Config, shown
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.places import FULL, SLIDING, window_of_all
from anyformer.huggingface.target import Place
from anyformer.huggingface.words.norms import Norm
from anyformer.parts import Attention, Block, Causal, Experts, FeedForward, Window, pre_norm

Layers = Sequence[tuple[str, Block]]
"""(name of the variant, block) of every layer."""
MASKS: Mapping[str, str] = {SLIDING: "local", FULL: "full"}
NETWORKS: Mapping[str, str] = {"sparse": "experts", "dense": "dense"}
MIXERS: Mapping[str, str] = {
    FULL: "full",
    "linear_attention": "linear",
    "mamba": "linear",
    "attention": "full",
    "conv": "convolution",
}
"""Type of layer in a configuration -> our word."""


def types(
    config: Config,
    absent: Callable[[int], str] | None,
    key: str = "layer_types",
    known: Mapping[str, str] = MASKS,
    at: Place | None = None,
) -> list[str]:
    """Our word for the type of each layer.

    `absent(i)`: the configuration's word for layer i where it has no list; `known`: its words -> ours.
    """
    depth, listed = config("num_hidden_layers"), config(key, None, at)
    if listed is None and absent is not None:
        listed = [absent(i) for i in range(depth)]
    listed = listed or []
    unknown = sorted(set(listed) - set(known))
    if unknown or len(listed) != depth:
        raise HuggingFaceError(
            f"{config.where}: {key} has {len(listed)} entries for num_hidden_layers = {depth}"
            + (f", and {', '.join(unknown)} is not known here, only {', '.join(known)}" if unknown else "")
        )
    return [known[word] for word in listed]


def windows(config: Config, absent: Callable[[int], str] | None, **more: Any) -> list[str]:
    """`local` or `full` for every layer; local ones need a `sliding_window`."""
    kinds, size = types(config, absent, **more), config("sliding_window", None)
    if "local" in kinds and size is None:
        raise HuggingFaceError(f"{config.where}: layer_types names {SLIDING}, and sliding_window is null: give it a number")
    return kinds


def every(period: int) -> Callable[[int], str]:
    """The type of layer i: full at the end of each `period`, else sliding."""
    return lambda layer: SLIDING if (layer + 1) % period else FULL


def mlp_types(config: Config, dense: int) -> list[str]:
    """`experts` or `dense` for every layer, from `mlp_layer_types`; `dense`: how many dense layers come first without it."""
    return types(config, lambda i: "dense" if i < dense else "sparse", "mlp_layer_types", NETWORKS)


def dense_first(config: Config, key: str, default: int) -> list[str]:
    """`dense` for as many layers as `key` says, then `experts`."""
    dense = config(key, default)
    return ["dense" if i < dense else "experts" for i in range(config("num_hidden_layers"))]


def mask(config: Config, kind: str) -> Causal | Window:
    """The mask of a layer: causal, and in `local` layers within `sliding_window` where that is a number."""
    size = config("sliding_window", None)
    return Causal() if size is None or kind != "local" else Window(size=size)


def mask_of_all(config: Config) -> Causal | Window:
    """The mask of a model whose layers all have the same."""
    config("sliding_window", None, window_of_all)
    return mask(config, "local")


def label(*axes: Sequence[str]) -> list[str]:
    """A name per layer: its word of every axis along which layers differ (`local_dense`); `layer` where none does."""
    differing = [axis for axis in axes if len(set(axis)) > 1]
    return ["_".join(words) for words in zip(*differing, strict=True)] if differing else ["layer"] * len(axes[0])


def layered(block: Callable[..., Block], *axes: Sequence[str]) -> Layers:
    """Layer i is `block(*words)`, the i-th word of every axis along which layers differ."""
    layers = list(zip(*axes, strict=True))
    blocks = {words: block(*words) for words in dict.fromkeys(layers)}
    return [(name, blocks[words]) for name, words in zip(label(*axes), layers, strict=True)]


def masked_layers(
    config: Config, norm: Norm, heads: Attention, network: FeedForward | Experts, kinds: Sequence[str], wire: Any = pre_norm
) -> Layers:
    """Layers that differ in their mask alone; `kinds`: `local` or `full` for each."""
    return layered(lambda kind: wire(norm, heads.but(mask=mask(config, kind)), network), kinds)


_CHOOSES = re.compile("dense|sparse|moe_layer|mlp_layer|mlp_only|expert_layer")
"""In the names of keys that say which layers have experts."""


def expert_layers(
    config: Config,
    norm: Norm,
    heads: Callable[..., Attention],
    experts: Experts,
    dense: FeedForward,
    *axes: Sequence[str],
    wire: Any = pre_norm,
) -> Layers:
    """Attention, then experts or a dense network; refuses layers none of which has experts.

    The last of the axes says `experts` or `dense`; `heads(*words)`: the attention of a layer, by its word of every axis.
    """
    if "experts" not in axes[-1]:
        chosen = ", ".join(f"{key} = {shown(value)}" for key, value in config.written.items() if _CHOOSES.search(key))
        none = f"none of num_hidden_layers = {len(axes[-1])} has experts{f' by {chosen}' if chosen else ''}"
        raise HuggingFaceError(f"{config.where}: {none}; use a dense family of the same shape")
    networks = {"experts": experts, "dense": dense}
    return layered(lambda *words: wire(norm, heads(*words), networks[words[-1]]), *axes)


def repeated(config: Config, block: Block, key: str = "num_hidden_layers") -> Layers:
    """Equal layers, as many as `key` says."""
    return [("layer", block)] * config(key)
