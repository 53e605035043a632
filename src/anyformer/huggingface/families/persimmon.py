"""Persimmon: LayerNorm, also of every query and key head, half of each head rotated, a plain network of squared ReLU."""

from __future__ import annotations

from anyformer.describe import change
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import GroupedRows, Names, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import NORMS, OUTSIDE, QKV, decoder_names
from anyformer.model import Architecture
from anyformer.parts import QKNorm, pre_norm

_LAYER = {
    "attention.output": "self_attn.dense",
    "attention.query_norm": "self_attn.q_layernorm",
    "attention.key_norm": "self_attn.k_layernorm",
    "feedforward.up": "mlp.dense_h_to_4h",
    "feedforward.down": "mlp.dense_4h_to_h",
}


def read(config: Config) -> Architecture:
    norm = words.layer_norm(config)
    qk_norm = QKNorm(norm=norm) if config("qk_layernorm", True) else None
    heads = words.full_heads(config, rotary=words.rotary(config, fraction=0.5), bias=words.ALL, qk_norm=qk_norm)
    dropout = config("hidden_dropout", 0.0, "feedforward.dropout")
    block = change(pre_norm(norm, heads, words.plain(config, "relu2")), "feedforward.dropout", dropout)
    return words.decoder(config, words.repeated(config, block), norm)


def names(architecture: Architecture) -> Names:
    fused = {QKV: To("self_attn.query_key_value", GroupedRows(Target(architecture)("attention.heads")))}
    return decoder_names(fused, _LAYER, NORMS, outside={**OUTSIDE, "decoder.final_norm": "model.final_layernorm"})


FAMILIES = (Family("persimmon", read, names, "PersimmonForCausalLM"),)
