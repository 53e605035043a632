"""XGLM: fairseq's sinusoids on scaled embeddings, pre-norm with biases."""

from __future__ import annotations

import math
from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.opt import ATTENTION, FEEDFORWARD, NORMS, OFFSET
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import activation, initialisation, longest, write_activation
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, LayerNorm, SinusoidalPosition, pre_norm
from anyformer.parts.heads import PROJECTIONS

OUTSIDE: Table = {"embedding": "model.embed_tokens", "decoder.final_norm": "model.layer_norm", "head": "lm_head"}


def read(config: Config) -> Architecture:
    width = config("d_model", 1024)
    config.expect("layerdrop", 0.0)
    dropout, norm = config("dropout", 0.1), LayerNorm()
    attention = Attention(heads=config("attention_heads", 16), bias=PROJECTIONS, dropout=config("attention_dropout", 0.1))
    feedforward = FeedForward(
        width=config("ffn_dim", 4096),
        activation=activation(config("activation_function", "gelu")),
        gated=False,
        bias=("up", "down"),
        dropout=config("activation_dropout", 0.0),
    )
    return decoder_only(
        Embedding(vocab=config("vocab_size", 256008), scale=math.sqrt(width) if config("scale_embedding", True) else 1.0),
        width,
        [pre_norm(norm, attention, feedforward, dropout=dropout)] * config("num_layers", 24),
        # Its table grows with the text, so `max_position_embeddings` is no limit.
        position=SinusoidalPosition(layout="halves", spacing="inclusive", offset=OFFSET),
        dropout=dropout,
        final_norm=norm,
        head=Head(tied=config("tie_word_embeddings", True)),
        initialisation=initialisation(config, key="init_std"),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    feedforward: FeedForward = get(architecture, "decoder.layer.feedforward.sublayer")
    return {
        "vocab_size": get(architecture, "embedding.vocab"),
        "scale_embedding": get(architecture, "embedding.scale") != 1.0,
        "d_model": architecture.width,
        "num_layers": architecture.output_stack.depth,
        "attention_heads": get(architecture, "decoder.layer.attention.heads"),
        "ffn_dim": feedforward.width,
        "activation_function": write_activation(feedforward.activation),
        "activation_dropout": feedforward.dropout,
        "attention_dropout": get(architecture, "decoder.layer.attention.sublayer.dropout"),
        "dropout": get(architecture, "decoder.dropout"),
        "max_position_embeddings": longest(architecture, 2048),
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


FAMILIES = (
    Family(
        "xglm",
        read,
        write,
        lambda architecture: Names(OUTSIDE, {"decoder": ("model.layers.{i}.", {**ATTENTION, **FEEDFORWARD, **NORMS})}),
        "XGLMForCausalLM",
        ignored=(r"(model\.)?embed_positions\.weights",),
        base="model.",
    ),
)
