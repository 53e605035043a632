"""SqueezeBERT: BERT whose projections are convolutions of one position, in groups."""

from __future__ import annotations

from collections.abc import Callable

from anyformer.describe import get
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Shaped, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.bert_line import (
    EMBEDDINGS,
    IGNORED,
    bert_head,
    bert_sublayers,
    encoder,
    encoder_names,
    learned_position,
    table_width,
)
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.model import Architecture
from anyformer.parts import HeadGroups, LayerNorm, NetworkGroups, post_norm

_HEADS = {"query": ("q_groups", 4), "key": ("k_groups", 4), "value": ("v_groups", 4), "output": ("post_attention_groups", 1)}
_NETWORK = {"up": ("intermediate_groups", 4), "down": ("output_groups", 4)}
"""Projection -> the key of its number of groups, and the default."""
_NORM = LayerNorm(eps=1e-12)
"""The norm in layers, whose epsilon no key has."""


def read(config: Config) -> Architecture:
    config.assume(vocab_size=30_522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072)
    width = table_width(config, "embedding_size", 768)
    if width != config("hidden_size"):
        raise config.refused("embedding_size", width, "hidden_size, since SqueezeBERT does not project its embeddings")
    heads = {name: config(key, usual, _groups("attention", name)) for name, (key, usual) in _HEADS.items()}
    network = {name: config(key, usual, _groups("feedforward", name)) for name, (key, usual) in _NETWORK.items()}
    attention, feedforward = bert_sublayers(config)
    attention = attention.but(grouped=HeadGroups(**heads) if max(heads.values()) > 1 else None)
    feedforward = feedforward.but(grouped=NetworkGroups(**network) if max(network.values()) > 1 else None)
    block = post_norm(_NORM, attention, feedforward, dropout=config("hidden_dropout_prob", 0.1))
    norm = words.layer_norm(config, 1e-12)
    head = bert_head(config, "SqueezeBert", norm)
    return encoder(config, block, head, position=learned_position(config), input_norm=norm)


def _groups(branch: str, name: str) -> Callable[[Target], int]:
    """The place of the number of groups of a projection."""

    def place(target: Target) -> int:
        grouped = target(f"{branch}.grouped")
        return 1 if grouped is None else int(grouped.counts[name])

    return place


def names(architecture: Architecture) -> Names:
    head = head_names(architecture, pooled=("transformer.pooler.dense", "classifier"))
    block = next(iter(architecture.output_stack.variants.values()))
    layer: Table = {"step_0_norm_after": "post_attention.layernorm", "step_1_norm_after": "output.layernorm"}
    for ours, theirs in _PROJECTIONS.items():
        inner = ours == "feedforward.up"
        rows = get(block, "feedforward.width") if inner else architecture.width
        layer = {**layer, f"{ours}.weight": To(f"{theirs}.weight", Shaped((rows, -1, 1))), f"{ours}.bias": f"{theirs}.bias"}
    return encoder_names(architecture, "transformer", EMBEDDINGS, head, layer, path="encoder.layers.{i}.")


_PROJECTIONS = {
    **{f"attention.{side}": f"attention.{side}" for side in words.QKV},
    "attention.output": "post_attention.conv1d",
    "feedforward.up": "intermediate.conv1d",
    "feedforward.down": "output.conv1d",
}
FAMILIES = (Family("squeezebert", read, names, "SqueezeBertForMaskedLM", ignored=IGNORED),)
