"""Persimmon: LayerNorm, also of every query and key head, half of each head turned, a plain network of squared ReLU."""

from __future__ import annotations

from typing import Any

from anyformer.describe import change
from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, each, model, plain, renamed, repeated
from anyformer.huggingface.families.llama import NORMS, OUTSIDE, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Groups, Names, Table, To
from anyformer.huggingface.spelling import read_rope
from anyformer.model import Architecture
from anyformer.parts import LayerNorm, pre_norm
from anyformer.parts.attention.heads import PROJECTIONS

LAYER: Table = {
    "attention.output": "self_attn.dense",
    "attention.query_norm": "self_attn.q_layernorm",
    "attention.key_norm": "self_attn.k_layernorm",
    "feedforward.up": "mlp.dense_h_to_4h",
    "feedforward.down": "mlp.dense_4h_to_h",
}


def read(config: Config) -> Architecture:
    config.expect("num_key_value_heads", None, config("num_attention_heads"))
    config.expect("head_dim", None, config("hidden_size") // config("num_attention_heads"))
    norm = LayerNorm(eps=config("layer_norm_eps", 1e-5))
    heads = attention(
        config,
        rotary=read_rope(config, fraction=0.5),
        bias=PROJECTIONS,
        qk_norm=norm if config("qk_layernorm", True) else None,
    )
    block = pre_norm(norm, heads, plain(config, "relu2", bias=True))
    block = change(block, "feedforward.dropout", config("hidden_dropout", 0.0))
    return model(config, repeated(config, block), norm)


def write(architecture: Architecture) -> dict[str, Any]:
    written = renamed(decoder.write(architecture), rms_norm_eps="layer_norm_eps")
    written["rope_parameters"].setdefault("partial_rotary_factor", 1.0)
    return {
        **written,
        "qk_layernorm": each(architecture, "attention.qk_norm")[0] is not None,
        "hidden_dropout": each(architecture, "feedforward.dropout")[0],
    }


def names(architecture: Architecture) -> Names:
    heads = each(architecture, "attention.heads")[0]
    fused: Table = {
        ("attention.query", "attention.key", "attention.value"): To("self_attn.query_key_value", Groups(heads)),
    }
    return decoder_names(fused, LAYER, NORMS, outside={**OUTSIDE, "decoder.final_norm": "model.final_layernorm"})


FAMILIES = (Family("persimmon", read, write, names, "PersimmonForCausalLM", ignored=BUFFERS),)
