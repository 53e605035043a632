"""Falcon: RW (ALiBi, serial), 7B (parallel branches, one norm, one key head), 40B and 180B (two norms, grouped heads)."""

from __future__ import annotations

from anyformer.describe import change
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import key_value_heads
from anyformer.huggingface.rules import GroupedRows, Names, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.gpt_line import gpt_names
from anyformer.huggingface.words.names import QKV
from anyformer.model import Architecture
from anyformer.parts import (
    ALiBi,
    Attention,
    Block,
    FeedForward,
    LayerNorm,
    Projection,
    Score,
    Softmax,
    parallel,
    pre_norm,
)


def read(config: Config) -> Architecture:
    width = config.either("hidden_size", "n_embed", default=4544)
    config.assume(hidden_size=width, num_hidden_layers=32)
    config.expect("ff_factor", 4, why="its class reads ffn_hidden_size only")
    attention, wide = _attention(config), words.four_times(config, width, "ffn_hidden_size")
    network = words.plain(config, "gelu", "activation", size=None, width=wide, bias=bool(attention.project.bias))
    norm = words.layer_norm(config, key="layer_norm_epsilon")
    layers = words.repeated(config, _block(config, norm, attention, network))
    return words.decoder(config, layers, norm, tied=True, vocab=65024)


def _attention(config: Config) -> Attention:
    heads, shared = config("num_attention_heads", 71), config("multi_query", True, lambda t: key_value_heads(t) == 1)
    alibi = config("alibi", False, lambda target: target("attention.rotary") is None)
    dropout = config("attention_dropout", 0.0, lambda t: t("attention.dropout") or t("attention.sublayer.dropout"))
    groups = config("num_kv_heads", None, key_value_heads) or heads
    if not config("new_decoder_architecture", False, _grouped):
        groups = 1 if shared else heads
        if not shared:
            config.expect("num_kv_heads", None, heads, why="without multi_query every head has its own keys and values")
    table = words.rope_parameters(config)
    return Attention(
        heads=heads,
        kv_heads=None if groups == heads else groups,
        project=Projection(bias=words.biases(config, "bias")),
        place=None if alibi else words.from_table(table),
        score=Score(terms=ALiBi(before_scale=True, rounded_to="bfloat16") if alibi else None),
        weigh=Softmax(dropout=dropout if alibi else 0.0),
    )


def _block(config: Config, norm: LayerNorm, attention: Attention, network: FeedForward) -> Block:
    """The layer: parallel branches with one norm or two, or serial branches."""
    grouped, side_by_side = config("new_decoder_architecture", False), config("parallel_attn", True, words.in_parallel)
    norms = config("num_ln_in_parallel_attn", None, lambda t: 2 if _two_norms(t) else 1) or (2 if grouped else 1)
    dropout = config("hidden_dropout", 0.0, "feedforward.dropout")
    if grouped:
        config.expect("parallel_attn", True, why="the new decoder architecture has no other form")
        config.expect("num_ln_in_parallel_attn", None, 1, 2)
    elif side_by_side:
        config.expect("num_ln_in_parallel_attn", None, 1, why="two norms need new_decoder_architecture")
    if grouped or side_by_side:
        config.expect("hidden_dropout", 0.0, why="its class drops the sum of the branches, not each")
        return parallel(norm, attention, network, shared_norm=norms == 1)
    block = pre_norm(norm, attention, network, dropout=config("attention_dropout", 0.0))
    return change(block, "feedforward.dropout", dropout)


def _two_norms(target: Target) -> bool:
    return words.in_parallel(target) and target("attention.norm_before") is not None


def _grouped(target: Target) -> bool:
    return _two_norms(target) or key_value_heads(target) not in (1, target("attention.heads"))


_OUTSIDE: Table = {"embedding": "transformer.word_embeddings", "decoder.final_norm": "transformer.ln_f", "head": "lm_head"}
_LAYERS: Table = {
    "step_0_norm_before": "input_layernorm",
    "attention.output": "self_attention.dense",
    "feedforward.up": "mlp.dense_h_to_4h",
    "feedforward.down": "mlp.dense_4h_to_h",
}
_SERIAL: Table = {"attention.norm_before": "input_layernorm", "feedforward.norm_before": "post_attention_layernorm"}
_TWO_NORMS: Table = {"attention.norm_before": "ln_attn", "feedforward.norm_before": "ln_mlp"}


def names(architecture: Architecture) -> Names:
    """Names of the weights; in all three layouts the fused rows are grouped by heads of keys and values."""
    target = Target(architecture)
    fused = {QKV: To("self_attention.query_key_value", GroupedRows(key_value_heads(target)))}
    return gpt_names(_LAYERS, _TWO_NORMS if words.in_parallel(target) else _SERIAL, fused, outside=_OUTSIDE)


FAMILIES = (
    Family(
        "falcon",
        read,
        names,
        "FalconForCausalLM",
        inert=("apply_residual_connection_post_layernorm",),
        # Eager adds ALiBi twice: to the scores and to the mask.
        kernel="sdpa",
        base="transformer.",
    ),
)
