"""BERT for generation: BERT's layers without token types; causal with a head on its own, features both ways for an encoder."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import activation, initialisation, write_activation
from anyformer.model import Architecture, decoder_only, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    Causal,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    LearnedPosition,
    post_norm,
)
from anyformer.parts.heads import PROJECTIONS

LAYERS: Table = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "step_0_norm_after": "attention.output.LayerNorm",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
    "step_1_norm_after": "output.LayerNorm",
}


def read(config: Config) -> Architecture:
    causal = config("is_decoder", False)
    norm, dropout = LayerNorm(eps=config("layer_norm_eps", 1e-12)), config("hidden_dropout_prob", 0.1)
    attention = Attention(
        heads=config("num_attention_heads", 16),
        bias=PROJECTIONS,
        mask=Causal() if causal else Bidirectional(),
        dropout=config("attention_probs_dropout_prob", 0.1),
    )
    feedforward = FeedForward(
        width=config("intermediate_size", 4096),
        activation=activation(config("hidden_act", "gelu")),
        gated=False,
        bias=("up", "down"),
    )
    make = decoder_only if causal else encoder_only
    tied = config("tie_word_embeddings", True)
    return make(
        Embedding(vocab=config("vocab_size", 50358)),
        config("hidden_size", 1024),
        [post_norm(norm, attention, feedforward, dropout=dropout)] * config("num_hidden_layers", 24),
        position=LearnedPosition(length=config("max_position_embeddings", 512)),
        input_norm=norm,
        dropout=dropout,
        head=Head(tied=tied, bias=True) if causal else None,
        initialisation=initialisation(config),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    stack = next(iter(architecture.stacks))
    causal = stack == "decoder"
    feedforward: FeedForward = get(architecture, f"{stack}.layer.feedforward.sublayer")
    head = {"tie_word_embeddings": get(architecture, "head.tied")} if causal else {"architectures": ["BertGenerationEncoder"]}
    return head | {
        "is_decoder": causal,
        "vocab_size": get(architecture, "embedding.vocab"),
        "hidden_size": architecture.width,
        "num_hidden_layers": architecture.output_stack.depth,
        "num_attention_heads": get(architecture, f"{stack}.layer.attention.heads"),
        "intermediate_size": feedforward.width,
        "hidden_act": write_activation(feedforward.activation),
        "layer_norm_eps": get(architecture, f"{stack}.input_norm.eps"),
        "max_position_embeddings": get(architecture, f"{stack}.position.length"),
        "hidden_dropout_prob": architecture.output_stack.dropout,
        "attention_probs_dropout_prob": get(architecture, f"{stack}.layer.attention.sublayer.dropout"),
    }


def names(architecture: Architecture) -> Names:
    stack = next(iter(architecture.stacks))
    base = "bert." if stack == "decoder" else ""
    # A tied head's bias is stored once, under the name outside its projection; an untied head never reads that one.
    bias = "lm_head.bias" if architecture.head is not None and architecture.head.tied else "lm_head.decoder.bias"
    outside: Table = {
        "embedding": f"{base}embeddings.word_embeddings",
        f"{stack}.position": f"{base}embeddings.position_embeddings",
        f"{stack}.input_norm": f"{base}embeddings.LayerNorm",
        "head.weight": "lm_head.decoder.weight",
        "head.bias": bias,
    }
    return Names(outside, {stack: (base + "encoder.layer.{i}.", LAYERS)})


FAMILIES = (
    Family(
        "bert-generation",
        read,
        write,
        names,
        "BertGenerationDecoder",
        ignored=(r"lm_head\.(bias|decoder\.(weight|bias))", r"(bert\.)?embeddings\.position_ids"),
    ),
)
