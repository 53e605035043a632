"""OPT (and Galactica): learned positions from row 2 on; the 350M shape is post-norm, with narrow embeddings."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import activation, initialisation, write_activation
from anyformer.model import Architecture, decoder_only
from anyformer.parts import (
    Attention,
    Embedding,
    FeedForward,
    Head,
    InputProjection,
    LayerNorm,
    LearnedPosition,
    Transform,
    post_norm,
    pre_norm,
)
from anyformer.parts.heads import PROJECTIONS

OUTSIDE: Table = {
    "embedding": "model.decoder.embed_tokens",
    "decoder.position": "model.decoder.embed_positions",
    "decoder.input_projection": "model.decoder.project_in",
    "decoder.final_norm": "model.decoder.final_layer_norm",
    "head.transform.dense": "model.decoder.project_out",
    "head": "lm_head",
}
ATTENTION: Table = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.out_proj",
}
FEEDFORWARD: Table = {"feedforward.up": "fc1", "feedforward.down": "fc2"}
NORMS: Table = {"attention.norm_before": "self_attn_layer_norm", "feedforward.norm_before": "final_layer_norm"}
AFTER: Table = {"step_0_norm_after": "self_attn_layer_norm", "step_1_norm_after": "final_layer_norm"}
OFFSET = 2


def read(config: Config) -> Architecture:
    width = config("hidden_size", 768)
    narrow = config("word_embed_proj_dim", None) or width
    biased, first, affine = (
        config(name, True) for name in ("enable_bias", "do_layer_norm_before", "layer_norm_elementwise_affine")
    )
    config.expect("layerdrop", 0.0)
    config.expect("scale_embeddings", False)
    config.expect("learned_embeddings", True)
    norm = LayerNorm() if affine else LayerNorm(gain="none", bias=False)
    attention = Attention(
        heads=config("num_attention_heads", 12),
        bias=PROJECTIONS if biased else (),
        dropout=config("attention_dropout", 0.0),
    )
    feedforward = FeedForward(
        width=config("ffn_dim", 3072),
        activation=activation(config("activation_function", "relu")),
        gated=False,
        bias=("up", "down") if biased else (),
    )
    wire = pre_norm if first else post_norm
    removed = config("_remove_final_layer_norm", False)
    return decoder_only(
        Embedding(vocab=config("vocab_size", 50272)),
        width,
        [wire(norm, attention, feedforward, dropout=config("dropout", 0.1))] * config("num_hidden_layers", 12),
        embedding_width=None if narrow == width else narrow,
        input_projection=None if narrow == width else InputProjection(place="first", bias=False),
        position=LearnedPosition(length=config("max_position_embeddings", 2048), offset=OFFSET),
        final_norm=norm if first and not removed else None,
        head=Head(tied=config("tie_word_embeddings", True), transform=None if narrow == width else Transform(bias=False)),
        initialisation=initialisation(config, key="init_std"),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = get(architecture, "decoder.layer.attention.sublayer")
    after = get(architecture, "decoder.layer.steps.0.norm_after")
    norm = after or get(architecture, "decoder.layer.attention.norm_before")
    return {
        "vocab_size": get(architecture, "embedding.vocab"),
        "hidden_size": architecture.width,
        "word_embed_proj_dim": architecture.table_width,
        "num_hidden_layers": architecture.output_stack.depth,
        "num_attention_heads": attention.heads,
        "ffn_dim": get(architecture, "decoder.layer.feedforward.width"),
        "activation_function": write_activation(get(architecture, "decoder.layer.feedforward.activation")),
        "max_position_embeddings": get(architecture, "decoder.position.length"),
        "do_layer_norm_before": after is None,
        "_remove_final_layer_norm": after is None and get(architecture, "decoder.final_norm") is None,
        "layer_norm_elementwise_affine": norm.bias,
        "enable_bias": bool(attention.bias),
        "attention_dropout": attention.dropout,
        "dropout": get(architecture, "decoder.layer.attention.dropout"),
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


FAMILIES = (
    Family(
        "opt",
        read,
        write,
        lambda architecture: Names(
            OUTSIDE, {"decoder": ("model.decoder.layers.{i}.", {**ATTENTION, **FEEDFORWARD, **NORMS, **AFTER})}
        ),
        "OPTForCausalLM",
        inert=("activation_dropout",),
        base="model.",
    ),
)
