"""ALBERT: BERT with narrow embeddings, whose layers are a few sets of weights computed again and again."""

from __future__ import annotations

import re
from typing import Any

from anyformer.describe import Named, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.bert import EMBEDDINGS, encoder_names, norm_of
from anyformer.huggingface.families.electra import narrow, write_narrow
from anyformer.huggingface.families.encoder_heads import encoder_head, head_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import activation
from anyformer.model import Architecture
from anyformer.parts import Transform
from anyformer.parts.block import Block
from anyformer.parts.order import MOST_LAYERS, write_order

LAYER: Table = {
    "attention.query": "attention.query",
    "attention.key": "attention.key",
    "attention.value": "attention.value",
    "attention.output": "attention.dense",
    "step_0_norm_after": "attention.LayerNorm",
    "feedforward.up": "ffn",
    "feedforward.down": "ffn_output",
    "step_1_norm_after": "full_layer_layer_norm",
}
HEAD = ("predictions.dense", "predictions.LayerNorm", "predictions.decoder")


def read(config: Config) -> Architecture:
    """The layers of a group are one set of weights, or `inner_group_num` sets that take turns."""
    config.assume(hidden_act="gelu_new", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    transform = Transform(activation=activation(config("hidden_act")), norm=norm_of(config))
    head = encoder_head(config, transform, pooled=Transform(activation="tanh", width=config("hidden_size")))
    made = narrow(config, head, config("embedding_size", 128), always=True)
    groups, inner, depth = config("num_hidden_groups", 1), config("inner_group_num", 1), config("num_hidden_layers")
    if depth * inner > MOST_LAYERS:
        raise config.refused("inner_group_num", inner, f"at most {MOST_LAYERS // depth} where there are {depth} layers")
    order = [f"group_{int(i / (depth / groups))}_{j}" for i in range(depth) for j in range(inner)]
    if groups == inner == 1:
        order = ["layer"] * depth
    names = tuple(dict.fromkeys(order))
    variants: Named[Block] = Named(dict.fromkeys(names, get(made, "encoder.layer")))
    return made.but(encoder=made.output_stack.but(variants=variants, order=write_order(order), shared_weights=names))


def groups_of(architecture: Architecture) -> tuple[int, int]:
    """How many groups, and how many sets of weights in each: the last layer's name says so."""
    last = re.fullmatch(r"group_(\d+)_(\d+)", architecture.output_stack.layers[-1])
    return (int(last[1]) + 1, int(last[2]) + 1) if last else (1, 1)


def write(architecture: Architecture) -> dict[str, Any]:
    groups, inner = groups_of(architecture)
    written = write_narrow(architecture, "Albert")
    # As the published files spell it; transformers' two functions differ in the last bit.
    tanh = {"hidden_act": "gelu_new"} if written["hidden_act"] == "gelu_pytorch_tanh" else {}
    return (
        written
        | tanh
        | {
            "num_hidden_layers": architecture.output_stack.depth // inner,
            "num_hidden_groups": groups,
            "inner_group_num": inner,
        }
    )


def names(architecture: Architecture) -> Names:
    """A set of weights stands at the number of the first layer that has it."""
    _, inner = groups_of(architecture)
    outside = {**EMBEDDINGS, "encoder.input_projection": "encoder.embedding_hidden_mapping_in"}
    for number, owner in enumerate(dict.fromkeys(architecture.output_stack.owners)):
        there = f"encoder.albert_layer_groups.{number // inner}.albert_layers.{number % inner}."
        outside |= {f"encoder.layers.{owner}.{ours}": f"{there}{theirs}" for ours, theirs in LAYER.items()}
    head = head_names(architecture, HEAD, "predictions.bias", ("albert.pooler", "classifier"))
    return encoder_names(architecture, "albert", outside, head)


FAMILIES = (
    Family(
        "albert", read, write, names, "AlbertForMaskedLM",
        inert=(
            "classifier_dropout_prob", "down_scale_factor", "gap_size", "layers_to_keep", "net_structure_type",
            "num_memory_blocks",
        ),
        ignored=(
            r".*position_ids", r"(.*\.)?pooler\..*", r"sop_classifier\..*", r"predictions\.(decoder\.(weight|bias)|bias)",
        ),
    ),
)  # fmt: skip
