"""Llama: RMS pre-norm, rotary positions, gated feed-forward; and the names that most decoders took over."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import (
    activation,
    initialisation,
    longest,
    read_rotary,
    rope_parameters,
    write_activation,
    write_rope,
)
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, RMSNorm, pre_norm
from anyformer.parts.heads import PROJECTIONS

OUTSIDE: Table = {"embedding": "model.embed_tokens", "decoder.final_norm": "model.norm", "head": "lm_head"}
ATTENTION: Table = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
}
FEEDFORWARD: Table = {
    "feedforward.gate": "mlp.gate_proj",
    "feedforward.up": "mlp.up_proj",
    "feedforward.down": "mlp.down_proj",
}
NORMS: Table = {
    "attention.norm_before": "input_layernorm",
    "feedforward.norm_before": "post_attention_layernorm",
}
LAYER = "model.layers.{i}."


def decoder_names(*tables: Table, outside: Table = OUTSIDE, prefix: str = LAYER) -> Names:
    """The names of a decoder whose layers hold these tables."""
    return Names(outside, {"decoder": (prefix, {key: to for table in tables for key, to in table.items()})})


def read(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6))
    attention = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", None),
        head_width=config("head_dim", None),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        rotary=read_rotary(rope_parameters(config)),
        dropout=config("attention_dropout", 0.0),
    )
    feedforward = FeedForward(
        width=config("intermediate_size"),
        activation=activation(config("hidden_act", "silu")),
        bias=("gate", "up", "down") if config("mlp_bias", False) else (),
    )
    return decoder_only(
        Embedding(vocab=config("vocab_size")),
        config("hidden_size"),
        [pre_norm(norm, attention, feedforward)] * config("num_hidden_layers"),
        final_norm=norm,
        head=Head(tied=config("tie_word_embeddings", False)),
        initialisation=initialisation(config),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = get(architecture, "decoder.layer.attention.sublayer")
    feedforward: FeedForward = get(architecture, "decoder.layer.feedforward.sublayer")
    return common(architecture) | {
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.kv_heads,
        "head_dim": attention.head_width,
        "attention_bias": bool(attention.bias),
        "attention_dropout": attention.dropout,
        **write_rope(get(architecture, "decoder.layer.attention.rotary")),
        "intermediate_size": feedforward.width,
        "hidden_act": write_activation(feedforward.activation),
        "mlp_bias": bool(feedforward.bias),
    }


def common(architecture: Architecture) -> dict[str, Any]:
    """What every decoder with an RMS norm writes alike."""
    return {
        "vocab_size": get(architecture, "embedding.vocab"),
        "hidden_size": architecture.width,
        "num_hidden_layers": architecture.output_stack.depth,
        "max_position_embeddings": longest(architecture),
        "rms_norm_eps": get(architecture.output_stack, "final_norm.eps"),
        "tie_word_embeddings": architecture.head is None or architecture.head.tied,
    }


FAMILIES = (
    Family(
        "llama",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, FEEDFORWARD, NORMS),
        "LlamaForCausalLM",
        ignored=(r".*rotary_emb\.inv_freq",),
    ),
)
