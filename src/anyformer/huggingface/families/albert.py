"""ALBERT: BERT with narrow embeddings, whose layers share a few sets of weights."""

from __future__ import annotations

import re

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import DEEPEST
from anyformer.huggingface.words.bert_line import EMBEDDINGS, bert_head, encoder_names, narrow_encoder, table_width
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.model import Architecture
from anyformer.parts import Block, Stack, Transform

_LAYER: Table = {
    **{f"attention.{side}": f"attention.{side}" for side in words.QKV},
    "attention.output": "attention.dense",
    "step_0_norm_after": "attention.LayerNorm",
    "feedforward.up": "ffn",
    "feedforward.down": "ffn_output",
    "step_1_norm_after": "full_layer_layer_norm",
}


def read(config: Config) -> Architecture:
    """The layers of a group share one set of weights, or alternate between `inner_group_num` sets."""
    # The spelling of the published files; transformers' two functions of this formula differ in the last bit.
    config.assume(hidden_act="gelu_new", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    groups, inner = (config(key, 1, place) for key, place in (("num_hidden_groups", _groups), ("inner_group_num", _inner)))
    depth = config("num_hidden_layers", at=lambda target: target.stack.depth // _inner(target))
    if depth * inner > DEEPEST:
        raise config.refused("inner_group_num", inner, f"at most {DEEPEST // depth} where there are {depth} layers")
    pooled = Transform(activation="tanh", width=config("hidden_size"))
    head = bert_head(config, "Albert", words.layer_norm(config, 1e-12), pooled=pooled)
    made = narrow_encoder(config, head, table_width(config, "embedding_size", 128), always=True)
    order = [f"group_{int(i / (depth / groups))}_{j}" for i in range(depth) for j in range(inner)]
    if groups == inner == 1:
        order = ["layer"] * depth
    names = tuple(dict.fromkeys(order))
    stack = made.output_stack
    variants: Named[Block] = Named(dict.fromkeys(names, stack.variants["layer"]))
    return made.but(encoder=stack.but(variants=variants, order=" ".join(order), shared_weights=names))


def _sets(stack: Stack) -> tuple[int, int]:
    """The number of groups, and of sets of weights in each, by the name of the last layer."""
    last = re.fullmatch(r"group_(\d+)_(\d+)", stack.layers[-1])
    return (int(last[1]) + 1, int(last[2]) + 1) if last else (1, 1)


def _groups(target: Target) -> int:
    return _sets(target.stack)[0]


def _inner(target: Target) -> int:
    return _sets(target.stack)[1]


def names(architecture: Architecture) -> Names:
    """Stored names, by our names of the first layer that has a set of weights."""
    _, inner = _sets(architecture.output_stack)
    outside = {**EMBEDDINGS, "encoder.input_projection": "encoder.embedding_hidden_mapping_in"}
    for number, owner in enumerate(dict.fromkeys(architecture.output_stack.owners)):
        there = f"encoder.albert_layer_groups.{number // inner}.albert_layers.{number % inner}."
        outside |= {f"encoder.layers.{owner}.{ours}": f"{there}{theirs}" for ours, theirs in _LAYER.items()}
    modules = ("predictions.dense", "predictions.LayerNorm", "predictions.decoder")
    head = head_names(architecture, modules, "predictions.bias", ("albert.pooler", "classifier"))
    return encoder_names(architecture, "albert", outside, head)


FAMILIES = (
    Family(
        "albert",
        read,
        names,
        "AlbertForMaskedLM",
        inert=(
            "classifier_dropout_prob", "down_scale_factor", "gap_size", "layers_to_keep", "net_structure_type",
            "num_memory_blocks",
        ),
        ignored=(
            r".*position_ids", r"(.*\.)?pooler\..*", r"sop_classifier\..*", r"predictions\.(decoder\.(weight|bias)|bias)",
        ),
    ),
)  # fmt: skip
