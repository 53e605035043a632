"""Layers that differ: lists of their types, windows, and the names of their variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.places import FULL, SLIDING, window_of_all
from anyformer.huggingface.target import Place
from anyformer.parts import Block, Causal, Experts, FeedForward, Window

Layers = Sequence[tuple[str, Block]]
"""Every layer, with the name of its variant."""
SEEN: Mapping[str, str] = {SLIDING: "local", FULL: "full"}
NETWORKS: Mapping[str, str] = {"sparse": "experts", "dense": "dense"}
MIXERS: Mapping[str, str] = {FULL: "full", "linear_attention": "linear", "conv": "convolution"}
"""Their word for what a layer holds -> ours."""


def types(
    config: Config,
    absent: Callable[[int], str] | None,
    key: str = "layer_types",
    known: Mapping[str, str] = SEEN,
    at: Place | None = None,
) -> list[str]:
    """Our word for what each layer holds; `absent(i)`: theirs where the configuration has no list; `known`: theirs -> ours."""
    depth, found = config("num_hidden_layers"), config(key, None, at)
    if found is None and absent is not None:
        found = [absent(i) for i in range(depth)]
    found = found or []
    strange = sorted(set(found) - set(known))
    if strange or len(found) != depth:
        raise HuggingFaceError(
            f"{config.where}: {key} has {len(found)} entries for {depth} layers"
            + (f", and {', '.join(strange)} is not known here, only {', '.join(known)}" if strange else "")
        )
    return [known[each] for each in found]


def windows(config: Config, absent: Callable[[int], str] | None, **more: Any) -> list[str]:
    """`local` or `full` for every layer; local ones need a `sliding_window`."""
    found, size = types(config, absent, **more), config("sliding_window", None)
    if "local" in found and size is None:
        raise HuggingFaceError(f"{config.where}: layer_types names {SLIDING}, and sliding_window is null: give it a number")
    return found


def every(period: int) -> Callable[[int], str]:
    """Sliding layers, and a full one at the end of each `period`."""
    return lambda layer: SLIDING if (layer + 1) % period else FULL


def mlp_types(config: Config, absent: Callable[[int], str]) -> list[str]:
    """`experts` or `dense` for every layer, from `mlp_layer_types`."""
    return types(config, absent, "mlp_layer_types", NETWORKS)


def mlps(experts: Experts, dense: FeedForward) -> Mapping[str, Experts | FeedForward]:
    """What a layer has after its attention, by our word for it."""
    return {"experts": experts, "dense": dense}


def dense_first(config: Config, key: str, default: int) -> list[str]:
    """`dense` for as many layers as `key` says, then `experts`."""
    dense = config(key, default)
    return ["dense" if i < dense else "experts" for i in range(config("num_hidden_layers"))]


def mask(config: Config, seen: str) -> Causal | Window:
    """Causal, and of `local` layers within `sliding_window` if there is one."""
    size = config("sliding_window", None)
    return Causal() if size is None or seen != "local" else Window(size=size)


def mask_of_all(config: Config) -> Causal | Window:
    """The mask of a model whose layers are alike."""
    config("sliding_window", None, window_of_all)
    return mask(config, "local")


def label(*axes: Sequence[str]) -> list[str]:
    """A name per layer: its word of every axis along which layers differ (`local_dense`); `layer` where none does."""
    telling = [axis for axis in axes if len(set(axis)) > 1]
    return ["_".join(words) for words in zip(*telling, strict=True)] if telling else ["layer"] * len(axes[0])


def layered(made: Callable[..., Block], *axes: Sequence[str]) -> Layers:
    """Layer i is `made(*words)`, the i-th word of every axis along which layers differ."""
    words = list(zip(*axes, strict=True))
    blocks = {each: made(*each) for each in dict.fromkeys(words)}
    return [(name, blocks[each]) for name, each in zip(label(*axes), words, strict=True)]


def repeated(config: Config, block: Block, key: str = "num_hidden_layers") -> Layers:
    """Every layer alike; `key`: of their number."""
    return [("layer", block)] * config(key)


def with_experts(config: Config, layers: Layers) -> Layers:
    """The same layers, some of which have experts."""
    if not any("experts" in block.branches for _, block in layers):
        raise HuggingFaceError(f"{config.where}: no layer has experts; use a dense family of the same shape")
    return layers
