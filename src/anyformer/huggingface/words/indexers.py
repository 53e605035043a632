"""Layers whose queries attend to keys that an indexer chooses, of the layer itself or of the latest one that has an indexer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.words.layers import Layers, label, layered
from anyformer.parts import Block, Indexer, LatentAttention, SharedIndex, pre_norm
from anyformer.parts.norms.norm import Norm

OWN, EARLIER = "full", "shared"
"""Words of `indexer_types`: a layer with an indexer of its own, and one with the choice of the latest layer that has one."""
INDEXERS = {word: word for word in (OWN, EARLIER)}


def sharing_layers(
    config: Config,
    norm: Norm,
    attention: LatentAttention,
    choice: Indexer,
    networks: Mapping[str, Any],
    indexers: Sequence[str],
    mlps: Sequence[str],
) -> Layers:
    """The layers; one without an indexer has the keys of the latest one with, whatever network stands beside that.

    `indexers`: a word of `INDEXERS` per layer; `mlps`: which of the networks.
    """
    owners = _owners(config, indexers, mlps)
    named = dict(zip(zip(owners, mlps, strict=True), label(owners, mlps), strict=True))

    def block(owner: str, mlp: str) -> Block:
        if owner == OWN:
            return pre_norm(norm, attention.but(choice=choice), networks[mlp])
        variant = named[OWN, owner.removeprefix("of_")]
        return pre_norm(norm, attention.but(choice=SharedIndex(variant=variant, keep=choice.keep)), networks[mlp])

    return layered(block, owners, mlps)


def _owners(config: Config, indexers: Sequence[str], mlps: Sequence[str]) -> list[str]:
    """`full` per layer with an indexer, else which network stands beside the latest such layer: `of_dense`."""
    if indexers[0] != OWN:
        raise HuggingFaceError(f"{config.where}: the first layer shares an indexer, and no layer before it has one")
    owners, latest = [], mlps[0]
    for kind, mlp in zip(indexers, mlps, strict=True):
        latest = mlp if kind == OWN else latest
        owners.append(OWN if kind == OWN else f"of_{latest}")
    return owners
