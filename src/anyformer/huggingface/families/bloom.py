"""BLOOM: ALiBi, a norm after the embedding, queries, keys and values fused head by head."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.gpt2 import QKV
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Groups, Names, Table, To
from anyformer.huggingface.spelling import initialisation
from anyformer.model import Architecture, decoder_only
from anyformer.parts import ALiBi, Attention, Block, Branch, Embedding, FeedForward, Head, LayerNorm, Step, pre_norm
from anyformer.parts.heads import PROJECTIONS

OUTSIDE: Table = {
    "embedding": "transformer.word_embeddings",
    "decoder.input_norm": "transformer.word_embeddings_layernorm",
    "decoder.final_norm": "transformer.ln_f",
    "head": "lm_head",
}
LAYERS: Table = {
    "attention.norm_before": "input_layernorm",
    "feedforward.norm_before": "post_attention_layernorm",
    "step_0_norm_before": "input_layernorm",
    "step_1_norm_before": "post_attention_layernorm",
    "attention.output": "self_attention.dense",
    "feedforward.up": "mlp.dense_h_to_4h",
    "feedforward.down": "mlp.dense_4h_to_h",
}
"""Norms of a branch, or of a step whose residual is what it normalised."""
INERT = (
    "slow_but_exact", "attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi",
    "skip_bias_add", "skip_bias_add_qkv", "seq_length",
)  # fmt: skip
"""How it is computed, not what; and the length it was trained at."""


def either(config: Config, *names: str, default: int) -> int:
    """The value under any of these spellings; refuses two that disagree."""
    values = {config(name) for name in names if name in config} or {default}
    if len(values) > 1:
        raise HuggingFaceError(f"{config.where}: {' and '.join(names)} are one thing, and have the values {sorted(values)}")
    return int(values.pop())


def read(config: Config) -> Architecture:
    width = either(config, "n_embed", "hidden_size", default=64)
    norm = LayerNorm(eps=config("layer_norm_epsilon", 1e-5))
    config.expect("n_inner", None, 4 * width)
    attention = Attention(
        heads=either(config, "n_head", "num_attention_heads", default=8),
        bias=PROJECTIONS,
        score_bias=ALiBi(),
        dropout=config("attention_dropout", 0.0),
    )
    feedforward = FeedForward(width=4 * width, activation="gelu_tanh", gated=False, bias=("up", "down"))
    wire = residual_of_the_norm if config("apply_residual_connection_post_layernorm", False) else pre_norm
    block = wire(norm, attention, feedforward, dropout=config("hidden_dropout", 0.0))
    return decoder_only(
        Embedding(vocab=config("vocab_size", 250880)),
        width,
        [block] * either(config, "n_layer", "num_hidden_layers", default=2),
        input_norm=norm,
        final_norm=norm,
        head=Head(tied=config("tie_word_embeddings", True)),
        initialisation=initialisation(config),
    )


def residual_of_the_norm(norm: LayerNorm, *sublayers: Attention | FeedForward, dropout: float) -> Block:
    """x = norm(x) + sublayer(norm(x))."""
    branches: list[Named[Branch]] = [Named({each.kind: Branch(sublayer=each, dropout=dropout)}) for each in sublayers]
    return Block(steps=tuple(Step(norm_before=norm, branches=branch, residual="normed") for branch in branches))


def write(architecture: Architecture) -> dict[str, Any]:
    return {
        "vocab_size": get(architecture, "embedding.vocab"),
        "hidden_size": architecture.width,
        "n_layer": architecture.output_stack.depth,
        "n_head": get(architecture, "decoder.layer.attention.heads"),
        "layer_norm_epsilon": get(architecture, "decoder.final_norm.eps"),
        "apply_residual_connection_post_layernorm": get(architecture, "decoder.layer.steps.0.residual") == "normed",
        "hidden_dropout": get(architecture, "decoder.layer.attention.dropout"),
        "attention_dropout": get(architecture, "decoder.layer.attention.sublayer.dropout"),
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


def names(architecture: Architecture) -> Names:
    fused = To("self_attention.query_key_value", Groups(get(architecture, "decoder.layer.attention.heads")))
    return Names(OUTSIDE, {"decoder": ("transformer.h.{i}.", {**LAYERS, QKV: fused})})


FAMILIES = (Family("bloom", read, write, names, "BloomForCausalLM", inert=INERT, base="transformer."),)
