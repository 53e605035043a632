"""BioGPT: OPT's layers on scaled embeddings, with learned positions from row 2 on."""

from __future__ import annotations

import math
from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.opt import ATTENTION, FEEDFORWARD, NORMS, OFFSET
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import activation, initialisation, write_activation
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, LayerNorm, LearnedPosition, pre_norm
from anyformer.parts.heads import PROJECTIONS

OUTSIDE: Table = {
    "embedding": "biogpt.embed_tokens",
    "decoder.position": "biogpt.embed_positions",
    "decoder.final_norm": "biogpt.layer_norm",
    "head": "output_projection",
}


def read(config: Config) -> Architecture:
    width = config("hidden_size", 1024)
    config.expect("layerdrop", 0.0)
    dropout, norm = config("hidden_dropout_prob", 0.1), LayerNorm()
    attention = Attention(
        heads=config("num_attention_heads", 16), bias=PROJECTIONS, dropout=config("attention_probs_dropout_prob", 0.1)
    )
    feedforward = FeedForward(
        width=config("intermediate_size", 4096),
        activation=activation(config("hidden_act", "gelu")),
        gated=False,
        bias=("up", "down"),
        dropout=config("activation_dropout", 0.0),
    )
    return decoder_only(
        Embedding(vocab=config("vocab_size", 42384), scale=math.sqrt(width) if config("scale_embedding", True) else 1.0),
        width,
        [pre_norm(norm, attention, feedforward, dropout=dropout)] * config("num_hidden_layers", 24),
        position=LearnedPosition(length=config("max_position_embeddings", 1024), offset=OFFSET),
        dropout=dropout,
        final_norm=norm,
        head=Head(tied=config("tie_word_embeddings", True)),
        initialisation=initialisation(config),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    feedforward: FeedForward = get(architecture, "decoder.layer.feedforward.sublayer")
    return {
        "vocab_size": get(architecture, "embedding.vocab"),
        "scale_embedding": get(architecture, "embedding.scale") != 1.0,
        "hidden_size": architecture.width,
        "num_hidden_layers": architecture.output_stack.depth,
        "num_attention_heads": get(architecture, "decoder.layer.attention.heads"),
        "intermediate_size": feedforward.width,
        "hidden_act": write_activation(feedforward.activation),
        "activation_dropout": feedforward.dropout,
        "attention_probs_dropout_prob": get(architecture, "decoder.layer.attention.sublayer.dropout"),
        "hidden_dropout_prob": get(architecture, "decoder.dropout"),
        "max_position_embeddings": get(architecture, "decoder.position.length"),
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


FAMILIES = (
    Family(
        "biogpt",
        read,
        write,
        lambda architecture: Names(OUTSIDE, {"decoder": ("biogpt.layers.{i}.", {**ATTENTION, **FEEDFORWARD, **NORMS})}),
        "BioGptForCausalLM",
        # Its class makes every norm with PyTorch's own eps and never looks at this key.
        inert=("layer_norm_eps",),
        ignored=(r"output_projection\.weight",),
        base="biogpt.",
    ),
)
