"""GPT-Neo: GPT-2 with unscaled scores, separate projections, and windows in every other layer."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families import gpt2
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import activation, initialisation
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Block,
    Causal,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    LearnedPosition,
    Window,
    pre_norm,
    stack,
)

LAYERS: Table = {
    "attention.query": "attn.attention.q_proj",
    "attention.key": "attn.attention.k_proj",
    "attention.value": "attn.attention.v_proj",
    "attention.output": "attn.attention.out_proj",
    "feedforward.up": "mlp.c_fc",
    "feedforward.down": "mlp.c_proj",
}
PERIODS: list[tuple[list[str], int]] = [(["global", "local"], 12)]
KINDS = {"global": "dense", "local": "local"}
"""Their name of a layer -> ours."""


def kinds(config: Config) -> list[str]:
    """`dense` or `local` for every layer, from the pairs of a period and how often it comes."""
    periods = config("attention_types", None) or PERIODS
    layers = [kind for period, count in periods for kind in period * count]
    config.expect("attention_layers", layers, why="it follows from attention_types")
    depth = config("num_layers", 24)
    if len(layers) != depth or not KINDS.keys() >= set(layers):
        raise HuggingFaceError(
            f"{config.where}: attention_types should give global or local for each of num_layers = {depth} layers, got {layers}"
        )
    return [KINDS[layer] for layer in layers]


def read(config: Config) -> Architecture:
    width = config("hidden_size", 2048)
    norm = LayerNorm(eps=config("layer_norm_epsilon", 1e-5))
    feedforward = FeedForward(
        width=config("intermediate_size", None) or 4 * width,
        activation=activation(config("activation_function", "gelu_new")),
        gated=False,
        bias=("up", "down"),
    )
    attention = Attention(heads=config("num_heads", 16), bias=("output",), scale=1.0, dropout=config("attention_dropout", 0.0))
    masks = {"dense": Causal(), "local": Window(size=config("window_size", 256))}
    dropout = config("resid_dropout", 0.0)
    blocks: dict[str, Block] = {
        kind: pre_norm(norm, attention.but(mask=mask), feedforward, dropout=dropout) for kind, mask in masks.items()
    }
    return Architecture(
        width=width,
        embedding=Embedding(vocab=config("vocab_size", 50257)),
        decoder=stack(
            [blocks[kind] for kind in kinds(config)],
            names=Named(blocks),
            position=LearnedPosition(length=config("max_position_embeddings", 2048)),
            dropout=config("embed_dropout", 0.0),
            final_norm=norm,
        ),
        head=Head(tied=config("tie_word_embeddings", True)),
        initialisation=initialisation(config),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    decoder, layer = architecture.output_stack, gpt2.first_layer(architecture)
    back = {ours: theirs for theirs, ours in KINDS.items()}
    windows = {"window_size": get(architecture, "decoder.local.attention.mask.size")} if "local" in decoder.variants else {}
    return windows | {
        "vocab_size": get(architecture, "embedding.vocab"),
        "hidden_size": architecture.width,
        "num_layers": decoder.depth,
        "num_heads": get(architecture, f"{layer}.attention.heads"),
        "intermediate_size": get(architecture, f"{layer}.feedforward.width"),
        "attention_types": [[[back[layer] for layer in decoder.layers], 1]],
        "activation_function": gpt2.write_gelu(get(architecture, f"{layer}.feedforward.activation")),
        "layer_norm_epsilon": get(architecture, "decoder.final_norm.eps"),
        "max_position_embeddings": get(architecture, "decoder.position.length"),
        "attention_dropout": get(architecture, f"{layer}.attention.sublayer.dropout"),
        "embed_dropout": decoder.dropout,
        "resid_dropout": get(architecture, f"{layer}.attention.dropout"),
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


FAMILIES = (
    Family(
        "gpt_neo",
        read,
        write,
        lambda architecture: Names(gpt2.OUTSIDE, {"decoder": (gpt2.LAYER, {**gpt2.NORMS, **LAYERS})}),
        "GPTNeoForCausalLM",
        inert=gpt2.INERT,
        ignored=(gpt2.MASKS,),
        base=gpt2.BASE,
    ),
)
