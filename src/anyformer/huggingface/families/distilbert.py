"""DistilBERT: BERT without types of segments, in names of its own."""

from __future__ import annotations

from typing import Any

from anyformer.describe import change, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.bert import encoder_names
from anyformer.huggingface.families.encoder_heads import encoder_head, head_names, write_head
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import activation, initialisation, write_activation
from anyformer.model import Architecture, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    Embedding,
    FeedForward,
    LayerNorm,
    LearnedPosition,
    Transform,
    post_norm,
)
from anyformer.parts.heads import PROJECTIONS

NORM = LayerNorm(eps=1e-12)
OUTSIDE: Table = {
    "embedding": "embeddings.word_embeddings",
    "encoder.position": "embeddings.position_embeddings",
    "encoder.input_norm": "embeddings.LayerNorm",
}
LAYER: Table = {
    "attention.query": "attention.q_lin",
    "attention.key": "attention.k_lin",
    "attention.value": "attention.v_lin",
    "attention.output": "attention.out_lin",
    "step_0_norm_after": "sa_layer_norm",
    "feedforward.up": "ffn.lin1",
    "feedforward.down": "ffn.lin2",
    "step_1_norm_after": "output_layer_norm",
}
HEAD = ("vocab_transform", "vocab_layer_norm", "vocab_projector")


def read(config: Config) -> Architecture:
    acted, dropout = activation(config("activation", "gelu")), config("dropout", 0.1)
    attention = Attention(
        heads=config("n_heads", 12),
        bias=PROJECTIONS,
        mask=Bidirectional(),
        dropout=config("attention_dropout", 0.1),
    )
    feedforward = FeedForward(width=config("hidden_dim", 3072), activation=acted, gated=False, bias=("up", "down"))
    # What attention gives is not dropped here.
    block = change(post_norm(NORM, attention, feedforward), "feedforward.dropout", dropout)
    return encoder_only(
        Embedding(vocab=config("vocab_size", 30522)),
        config("dim", 768),
        [block] * config("n_layers", 6),
        position=LearnedPosition(length=config("max_position_embeddings", 512)),
        input_norm=NORM,
        dropout=dropout,
        head=encoder_head(config, Transform(activation=acted, norm=NORM), pooled=Transform(activation="relu")),
        initialisation=initialisation(config),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = get(architecture, "encoder.layer.attention.sublayer")
    feedforward: FeedForward = get(architecture, "encoder.layer.feedforward.sublayer")
    return write_head(architecture, "DistilBert") | {
        "vocab_size": get(architecture, "embedding.vocab"),
        "max_position_embeddings": get(architecture, "encoder.position.length"),
        "dim": architecture.width,
        "n_layers": architecture.output_stack.depth,
        "n_heads": attention.heads,
        "attention_dropout": attention.dropout,
        "hidden_dim": feedforward.width,
        "activation": write_activation(feedforward.activation),
        "dropout": get(architecture, "encoder.dropout"),
    }


def names(architecture: Architecture) -> Names:
    head = head_names(architecture, HEAD, "vocab_projector.bias", ("pre_classifier", "classifier"))
    return encoder_names(architecture, "distilbert", OUTSIDE, head, LAYER, path="transformer.layer.{i}.")


FAMILIES = (
    Family(
        "distilbert", read, write, names, "DistilBertForMaskedLM",
        inert=("qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_"),
        ignored=(r".*position_ids", r"vocab_projector\.weight"),
    ),
)  # fmt: skip
