"""CTRL: fixed sinusoids on embeddings scaled by sqrt(D), pre-norm, a bias on the logits."""

from __future__ import annotations

import math
from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families import gpt2
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import initialisation
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, LayerNorm, SinusoidalPosition, pre_norm
from anyformer.parts.heads import PROJECTIONS

OUTSIDE: Table = {"embedding": "transformer.w", "decoder.final_norm": "transformer.layernorm", "head": "lm_head"}
LAYERS: Table = {
    "attention.norm_before": "layernorm1",
    "feedforward.norm_before": "layernorm2",
    "attention.query": "multi_head_attention.Wq",
    "attention.key": "multi_head_attention.Wk",
    "attention.value": "multi_head_attention.Wv",
    "attention.output": "multi_head_attention.dense",
    "feedforward.up": "ffn.0",
    "feedforward.down": "ffn.2",
}


def read(config: Config) -> Architecture:
    width = config("n_embd", 1280)
    block = pre_norm(
        LayerNorm(eps=1e-6),
        Attention(heads=config("n_head", 16), bias=PROJECTIONS),
        FeedForward(width=config("dff", 8192), activation="relu", gated=False, bias=("up", "down")),
        dropout=config("resid_pdrop", 0.1),
    )
    return decoder_only(
        Embedding(vocab=config("vocab_size", 246534), scale=math.sqrt(width)),
        width,
        [block] * config("n_layer", 48),
        position=SinusoidalPosition(layout="halves", length=config("n_positions", 256)),
        dropout=config("embd_pdrop", 0.1),
        final_norm=LayerNorm(eps=config("layer_norm_epsilon", 1e-6)),
        head=Head(tied=config("tie_word_embeddings", True), bias=True),
        initialisation=initialisation(config),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    return gpt2.common(architecture) | {
        "dff": get(architecture, "decoder.layer.feedforward.width"),
        "n_positions": get(architecture, "decoder.position.length"),
    }


FAMILIES = (
    Family(
        "ctrl",
        read,
        write,
        lambda architecture: Names(OUTSIDE, {"decoder": (gpt2.LAYER, LAYERS)}),
        "CTRLLMHeadModel",
        inert=(*gpt2.INERT, "attn_pdrop", "from_tf"),
        ignored=(r"(transformer\.)?pos_encoding",),
        base=gpt2.BASE,
    ),
)
