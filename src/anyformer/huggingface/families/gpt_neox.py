"""GPT-NeoX (Pythia) and its Japanese sibling: part of each head rotated, queries, keys and values fused head by head."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.gpt2 import QKV, first_layer
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Groups, Names, Table, To
from anyformer.huggingface.spelling import (
    activation,
    initialisation,
    longest,
    read_rotary,
    rope_parameters,
    write_activation,
    write_rotary,
)
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, LayerNorm, Rotary, parallel, pre_norm, stack
from anyformer.parts.heads import PROJECTIONS

FEEDFORWARD: Table = {"feedforward.up": "mlp.dense_h_to_4h", "feedforward.down": "mlp.dense_4h_to_h"}
NORMS: Table = {"attention.norm_before": "input_layernorm", "feedforward.norm_before": "post_attention_layernorm"}
OUTPUT: Table = {"attention.output": "attention.dense"}
ALONE: Table = {"attention.output.weight": "attention.dense.weight", "attention.output.bias": "attention.dense_bias"}
INERT = ("is_decoder", "attention_probs_dropout_prob", "hidden_dropout_prob")


def read_partial_rotary(config: Config, share: float) -> Rotary:
    """Rotary positions by this line's own keys: `rotary_emb_base` and `rotary_pct`, `share` where it is not said."""
    base, share = config("rotary_emb_base", 10_000.0), config("rotary_pct", share)
    config.expect("rope_theta", base, why="rotary_emb_base is what counts")
    config.expect("partial_rotary_factor", share, why="rotary_pct is what counts")
    table = rope_parameters(config, theta=base)
    return read_rotary(table, unread=("partial_rotary_factor",), fraction=float(table.get("partial_rotary_factor", share)))


def read(config: Config) -> Architecture:
    norm = LayerNorm(eps=config("layer_norm_eps", 1e-5))
    attention = Attention(
        heads=config("num_attention_heads", 64),
        bias=PROJECTIONS if config("attention_bias", True) else (),
        rotary=read_partial_rotary(config, 0.25),
        dropout=config("attention_dropout", 0.0),
    )
    feedforward = FeedForward(
        width=config("intermediate_size", 24576),
        activation=activation(config("hidden_act", "gelu")),
        gated=False,
        bias=("up", "down"),
    )
    dropout = config("hidden_dropout", 0.0)
    block = (
        parallel(norm, attention, feedforward, dropout=dropout, shared_norm=False)
        if config("use_parallel_residual", True)
        else pre_norm(norm, attention, feedforward, dropout=dropout)
    )
    return decoder_only(
        Embedding(vocab=config("vocab_size", 50432)),
        config("hidden_size", 6144),
        [block] * config("num_hidden_layers", 44),
        dropout=dropout,
        final_norm=norm,
        head=Head(tied=config("tie_word_embeddings", False)),
        initialisation=initialisation(config),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    return common(architecture) | {
        "intermediate_size": get(architecture, "decoder.layer.feedforward.width"),
        "attention_bias": bool(get(architecture, "decoder.layer.attention.bias")),
        "use_parallel_residual": len(get(architecture, "decoder.layer.steps")) == 1,
    }


def common(architecture: Architecture) -> dict[str, Any]:
    """What both siblings write."""
    layer = first_layer(architecture)
    rotary: Rotary = get(architecture, f"{layer}.attention.rotary")
    return {
        "vocab_size": get(architecture, "embedding.vocab"),
        "hidden_size": architecture.width,
        "num_hidden_layers": architecture.output_stack.depth,
        "num_attention_heads": get(architecture, f"{layer}.attention.heads"),
        "hidden_act": write_activation(get(architecture, f"{layer}.feedforward.activation")),
        "layer_norm_eps": get(architecture, "decoder.final_norm.eps"),
        "rope_parameters": write_rotary(rotary) | {"partial_rotary_factor": rotary.fraction},
        "max_position_embeddings": longest(architecture),
        "attention_dropout": get(architecture, f"{layer}.attention.sublayer.dropout"),
        "hidden_dropout": get(architecture, f"{layer}.attention.dropout"),
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


def read_japanese(config: Config) -> Architecture:
    width, depth = config("hidden_size", 2560), config("num_hidden_layers", 32)
    norm = LayerNorm(eps=config("layer_norm_eps", 1e-5))
    attention = Attention(
        heads=config("num_attention_heads", 32),
        rotary=read_partial_rotary(config, 1.0),
        dropout=config("attention_dropout", 0.1),
    )
    feedforward = FeedForward(
        width=int(width * config("intermediate_multiple_size", 4)),
        activation=activation(config("hidden_act", "gelu")),
        gated=False,
    )
    dropout = config("hidden_dropout", 0.0)
    # Only the last layer's attention has a bias, on its output.
    inner = pre_norm(norm, attention, feedforward, dropout=dropout)
    last = pre_norm(norm, attention.but(bias=("output",)), feedforward, dropout=dropout)
    return Architecture(
        width=width,
        embedding=Embedding(vocab=config("vocab_size", 32000)),
        decoder=stack([inner] * (depth - 1) + [last], names=Named(inner=inner, last=last), final_norm=norm),
        head=Head(tied=config("tie_word_embeddings", True)),
        initialisation=initialisation(config),
    )


def write_japanese(architecture: Architecture) -> dict[str, Any]:
    ffn = get(architecture, f"{first_layer(architecture)}.feedforward.width")
    return common(architecture) | {"intermediate_multiple_size": ffn // architecture.width}


def names(architecture: Architecture, base: str, output: Table) -> Names:
    heads = get(architecture, f"{first_layer(architecture)}.attention.heads")
    outside = {"embedding": "embed_in", "decoder.final_norm": "final_layer_norm"}
    layer: Table = {QKV: To("attention.query_key_value", Groups(heads)), **NORMS, **FEEDFORWARD, **output}
    return Names(
        {**{ours: base + theirs for ours, theirs in outside.items()}, "head": "embed_out"},
        {"decoder": (base + "layers.{i}.", layer)},
    )


BASES = ("gpt_neox.", "gpt_neox_japanese.")
IGNORED = (r"(.*\.)?layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)", r"embed_out\.weight")
FAMILIES = (
    Family(
        "gpt_neox",
        read,
        write,
        lambda architecture: names(architecture, BASES[0], OUTPUT),
        "GPTNeoXForCausalLM",
        inert=INERT,
        ignored=IGNORED,
        base=BASES[0],
    ),
    Family(
        "gpt_neox_japanese",
        read_japanese,
        write_japanese,
        lambda architecture: names(architecture, BASES[1], ALONE),
        "GPTNeoXJapaneseForCausalLM",
        inert=INERT,
        ignored=IGNORED,
        base=BASES[1],
    ),
)
