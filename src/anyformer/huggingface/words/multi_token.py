"""Predictions of later tokens: the key of their number, and the names of their weights."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.rules import Names, To, under
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import LAYER
from anyformer.model import Architecture
from anyformer.parts import Block, SequentialPrediction
from anyformer.parts.norms.norm import Norm


def later_tokens(
    config: Config,
    norm: Norm,
    block: Block,
    last: Block,
    *,
    key: str = "num_nextn_predict_layers",
    absent: int = 0,
    most: int | None = None,
    shared_norm: bool = False,
    bias: bool = False,
) -> SequentialPrediction | None:
    """DeepSeek-V3's modules, as many as `key` says, `absent` where it says nothing; None for 0.

    `block`: their layer; `last`: the last one of the model. `most`: the greatest number whose weights have names.
    """
    depth = config(key, absent, partial(_depth, absent)) or 0
    if not depth:
        return None
    if most is not None and depth > most:
        raise HuggingFaceError(f"{config.where}: {key} = {depth}, and files of {config.model_type} have names for {most} only")
    own = None if block == last else block
    return SequentialPrediction(depth=depth, block=own, norm=norm, shared_norm=shared_norm, bias=bias)


def _depth(absent: int, target: Target) -> int:
    """The number of modules; 0 is written only where the key's absence means another."""
    mtp = target.architecture.mtp
    if mtp is None and not absent:
        raise MismatchError("the architecture predicts no later tokens")
    return 0 if mtp is None else mtp.depth


def as_layers(names: Names, architecture: Architecture) -> Names:
    """Names with those of DeepSeek-V3's modules: layers after the last, each with copies of the embedding and the head."""
    depth, count = architecture.output_stack.depth, _count(architecture)
    beside = {"embedding_norm": "enorm", "hidden_norm": "hnorm", "projection": "eh_proj", "final_norm": "shared_head.norm"}
    made = apart(names, architecture, LAYER, {ours: f"{LAYER}{theirs}" for ours, theirs in beside.items()}, first=depth)
    prefixes = [LAYER.replace("{i}", str(depth + k)) for k in range(count)]
    tied = architecture.head is not None and architecture.head.tied
    heads = tuple(f"{prefix}shared_head.head" for prefix in prefixes)
    tables = tuple(f"{prefix}embed_tokens" for prefix in prefixes)
    return _copied(made, {"embedding": tables + heads} if tied else {"embedding": tables, "head": heads})


def apart(names: Names, architecture: Architecture, prefix: str, beside: Mapping[str, str], first: int = 0) -> Names:
    """Names with those of modules that stand apart: the prefix of the layer of each, and the names `beside` it of both first
    norms, of the projection and of the last norm. `{i}` is the number of the module, counted from `first`."""
    _, table = names.layers["decoder"]
    added: dict[str | tuple[str, ...], str | To] = {}
    for k in range(_count(architecture)):
        for ours, theirs in beside.items():
            room = "exits" if ours == "final_norm" else "entrances"
            added[f"mtp.{room}.{k}.{ours}"] = theirs.replace("{i}", str(first + k))
        for source, target in under(prefix.replace("{i}", str(first + k)), table).items():
            parts = (source,) if isinstance(source, str) else source
            added[tuple(f"mtp.layers.{k}.{part}" for part in parts)] = target
    return Names({**names.outside, **added}, names.layers)


def _copied(names: Names, copies: Mapping[str, tuple[str, ...]]) -> Names:
    """Names with copies of tensors outside of the layers."""
    outside: dict[str | tuple[str, ...], str | To] = dict(names.outside)
    for ours, stored in copies.items():
        target = outside[ours]
        assert isinstance(target, str), "a table is stored as it is"
        outside[ours] = To(target, copies=stored)
    return Names(outside, names.layers)


def _count(architecture: Architecture) -> int:
    return 0 if architecture.mtp is None else architecture.mtp.depth
