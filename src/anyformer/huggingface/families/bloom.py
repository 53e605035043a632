"""BLOOM: ALiBi, a norm after the embedding, queries, keys and values fused head by head."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import GroupedRows, Names, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.gpt_line import gpt_names
from anyformer.huggingface.words.names import QKV
from anyformer.model import Architecture
from anyformer.parts import (
    ALiBi,
    Attention,
    Block,
    Branch,
    FeedForward,
    LayerNorm,
    Projection,
    Score,
    Softmax,
    Step,
    pre_norm,
)

_LAYERS: Table = {
    "attention.norm_before": "input_layernorm",
    "feedforward.norm_before": "post_attention_layernorm",
    "step_0_norm_before": "input_layernorm",
    "step_1_norm_before": "post_attention_layernorm",
    "attention.output": "self_attention.dense",
    "feedforward.up": "mlp.dense_h_to_4h",
    "feedforward.down": "mlp.dense_4h_to_h",
}
"""Names of the norms of branches, or of steps whose residual is the normalised input."""


def read(config: Config) -> Architecture:
    width, depth = config.either("hidden_size", "n_embed", default=64), config.either("n_layer", "num_hidden_layers", default=2)
    config.assume(hidden_size=width, n_layer=depth)
    config.expect("n_inner", None, 4 * width)
    norm, heads = words.layer_norm(config, key="layer_norm_epsilon"), config.either("n_head", "num_attention_heads", default=8)
    attention = Attention(
        heads=heads,
        project=Projection(bias=words.ALL),
        score=Score(terms=ALiBi()),
        weigh=Softmax(dropout=config("attention_dropout", 0.0)),
    )
    network = FeedForward(width=4 * width, activation="gelu_tanh", gated=False, bias=("up", "down"))
    normed = config("apply_residual_connection_post_layernorm", False, lambda target: target("steps.0.residual") == "normed")
    wire = _residual_of_the_norm if normed else pre_norm
    block = wire(norm, attention, network, dropout=config("hidden_dropout", 0.0, "attention.dropout"))
    layers, around = words.repeated(config, block, "n_layer"), {"input_norm": norm}
    return words.decoder(config, layers, norm, tied=True, vocab=250880, length=None, around=around)


def _residual_of_the_norm(norm: LayerNorm, *sublayers: Any, dropout: float) -> Block:
    """x = norm(x) + sublayer(norm(x))."""
    branches: list[Named[Branch]] = [
        Named({sublayer.kind: Branch(sublayer=sublayer, dropout=dropout)}) for sublayer in sublayers
    ]
    return Block(steps=tuple(Step(norm_before=norm, branches=branch, residual="normed") for branch in branches))


def names(architecture: Architecture) -> Names:
    fused = {QKV: To("self_attention.query_key_value", GroupedRows(Target(architecture)("attention.heads")))}
    return gpt_names(_LAYERS, fused, outside=_OUTSIDE)


_OUTSIDE: Table = {
    "embedding": "transformer.word_embeddings",
    "decoder.input_norm": "transformer.word_embeddings_layernorm",
    "decoder.final_norm": "transformer.ln_f",
    "head": "lm_head",
}
_INERT = (
    "slow_but_exact", "attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi",
    "skip_bias_add", "skip_bias_add_qkv", "seq_length",
)  # fmt: skip
"""Keys of the implementation, and the training length."""
FAMILIES = (Family("bloom", read, names, "BloomForCausalLM", inert=_INERT, base="transformer."),)
