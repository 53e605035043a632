"""Falcon: RW (ALiBi, serial), 7B (side by side behind one norm, one key head), 40B and 180B (two norms, groups)."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.bloom import either
from anyformer.huggingface.families.gpt2 import QKV
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
from anyformer.parts import ALiBi, Attention, Block, Branch, Embedding, FeedForward, Head, LayerNorm, Step, parallel
from anyformer.parts.heads import PROJECTIONS

OUTSIDE: Table = {"embedding": "transformer.word_embeddings", "decoder.final_norm": "transformer.ln_f", "head": "lm_head"}
LAYERS: Table = {
    "step_0_norm_before": "input_layernorm",
    "attention.output": "self_attention.dense",
    "feedforward.up": "mlp.dense_h_to_4h",
    "feedforward.down": "mlp.dense_4h_to_h",
}
SERIAL: Table = {"attention.norm_before": "input_layernorm", "feedforward.norm_before": "post_attention_layernorm"}
TWO_NORMS: Table = {"attention.norm_before": "ln_attn", "feedforward.norm_before": "ln_mlp"}


def read(config: Config) -> Architecture:
    width = either(config, "n_embed", "hidden_size", default=4544)
    attention = read_attention(config)
    feedforward = FeedForward(
        width=config("ffn_hidden_size", None) or 4 * width,
        activation=activation(config("activation", "gelu")),
        gated=False,
        bias=("up", "down") if attention.bias else (),
    )
    config.expect("ff_factor", 4, why="its class reads ffn_hidden_size only")
    norm = LayerNorm(eps=config("layer_norm_epsilon", 1e-5))
    return decoder_only(
        Embedding(vocab=config("vocab_size", 65024)),
        width,
        [read_block(config, norm, attention, feedforward)] * config("num_hidden_layers", 32),
        final_norm=norm,
        head=Head(tied=config("tie_word_embeddings", True)),
        initialisation=initialisation(config),
    )


def read_attention(config: Config) -> Attention:
    heads, alibi, dropout = config("num_attention_heads", 71), config("alibi", False), config("attention_dropout", 0.0)
    given, shared = config("num_kv_heads", None), config("multi_query", True)
    groups = given or heads
    if not config("new_decoder_architecture", False):
        groups = 1 if shared else heads
        if not shared:
            config.expect("num_kv_heads", None, heads, why="without multi_query every head has its own keys and values")
    table = rope_parameters(config)
    return Attention(
        heads=heads,
        kv_heads=None if groups == heads else groups,
        bias=PROJECTIONS if config("bias", False) else (),
        # Its class rounds slopes and distances, whatever the type of the model.
        score_bias=ALiBi(before_scale=True, rounded_to="bfloat16") if alibi else None,
        rotary=None if alibi else read_rotary(table),
        # With rotary positions its class drops no attention weights.
        dropout=dropout if alibi else 0.0,
    )


def read_block(config: Config, norm: LayerNorm, attention: Attention, feedforward: FeedForward) -> Block:
    """Side by side behind one norm or two, or one after the other."""
    grouped, beside = config("new_decoder_architecture", False), config("parallel_attn", True)
    norms = config("num_ln_in_parallel_attn", None) or (2 if grouped else 1)
    if grouped:
        config.expect("parallel_attn", True, why="the new decoder architecture has no other form")
        config.expect("num_ln_in_parallel_attn", None, 1, 2)
    elif beside:
        config.expect("num_ln_in_parallel_attn", None, 1, why="two norms need new_decoder_architecture")
    if grouped or beside:
        config.expect("hidden_dropout", 0.0, why="its class drops the sum of the branches, not each")
        return parallel(norm, attention, feedforward, shared_norm=norms == 1)
    branches = {
        "attention": Branch(norm_before=norm, sublayer=attention, dropout=config("attention_dropout", 0.0)),
        "feedforward": Branch(norm_before=norm, sublayer=feedforward, dropout=config("hidden_dropout", 0.0)),
    }
    return Block(steps=tuple(Step(branches=Named({name: branch})) for name, branch in branches.items()))


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = get(architecture, "decoder.layer.attention.sublayer")
    beside = len(get(architecture, "decoder.layer.steps")) == 1
    two_norms = beside and get(architecture, "decoder.layer.attention.norm_before") is not None
    grouped = two_norms or attention.groups not in (1, attention.heads)
    rotary = {} if attention.rotary is None else {"rope_parameters": write_rotary(attention.rotary)}
    return rotary | {
        "vocab_size": get(architecture, "embedding.vocab"),
        "hidden_size": architecture.width,
        "num_hidden_layers": architecture.output_stack.depth,
        "num_attention_heads": attention.heads,
        "num_kv_heads": attention.groups,
        "multi_query": attention.groups == 1,
        "new_decoder_architecture": grouped,
        "num_ln_in_parallel_attn": 2 if two_norms else 1,
        "parallel_attn": beside,
        "alibi": attention.rotary is None,
        "bias": bool(attention.bias),
        "ffn_hidden_size": get(architecture, "decoder.layer.feedforward.width"),
        "activation": write_activation(get(architecture, "decoder.layer.feedforward.activation")),
        "layer_norm_epsilon": get(architecture, "decoder.final_norm.eps"),
        "max_position_embeddings": longest(architecture),
        "attention_dropout": get(architecture, "decoder.layer.attention.dropout") or attention.dropout,
        "hidden_dropout": get(architecture, "decoder.layer.feedforward.dropout"),
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


def names(architecture: Architecture) -> Names:
    """All three layouts of the fused rows are one: a share of the queries with each head of keys and values."""
    fused = To("self_attention.query_key_value", Groups(get(architecture, "decoder.layer.attention.sublayer").groups))
    norms = TWO_NORMS if len(get(architecture, "decoder.layer.steps")) == 1 else SERIAL
    return Names(OUTSIDE, {"decoder": ("transformer.h.{i}.", {**LAYERS, **norms, QKV: fused})})


FAMILIES = (
    Family(
        "falcon",
        read,
        write,
        names,
        "FalconForCausalLM",
        inert=("apply_residual_connection_post_layernorm",),
        ignored=(r"(transformer\.)?h\.\d+\.self_attention\.rotary_emb\.inv_freq",),
        # Eager adds ALiBi twice, once of them in the mask.
        kernel="sdpa",
        base="transformer.",
    ),
)
