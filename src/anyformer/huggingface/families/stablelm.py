"""StableLM: LayerNorm, a partly rotated head, gated feed-forward; in parallel under one norm (12B) or one after the other."""

from __future__ import annotations

from typing import Any

from anyformer.describe import change, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.dense import (
    QKV,
    present,
    read_decoder,
    read_feedforward,
    read_positions,
    repeated,
    write_attention,
    write_decoder,
    write_sublayers,
)
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import write_activation
from anyformer.model import Architecture
from anyformer.parts import Attention, LayerNorm, parallel, pre_norm

SHARED_NORM: Table = {"step_0_norm_before": "input_layernorm"}


def read(config: Config) -> Architecture:
    config.expect("qk_layernorm", False, why="each head has a norm with its own gain")
    norm = LayerNorm(eps=config("layer_norm_eps", 1e-5))
    attention = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", 32),
        bias=QKV if config("use_qkv_bias", False) else (),
        rotary=read_positions(config, fraction=0.25),
        dropout=config("attention_dropout", 0.0),
    )
    wired = parallel if config("use_parallel_residual", False) else pre_norm
    block = wired(norm, attention, read_feedforward(config, "silu"))
    block = change(block, "feedforward.dropout", config("hidden_dropout", 0.0))
    return read_decoder(config, repeated(config, block), final_norm=norm)


def write(architecture: Architecture) -> dict[str, Any]:
    attention, feedforward = write_sublayers(architecture)
    written = write_decoder(architecture, "layer_norm_eps") | write_attention(attention) | {"head_dim": None}
    written["rope_parameters"].setdefault("partial_rotary_factor", 1.0)
    return present(written) | {
        "use_qkv_bias": bool(attention.bias),
        "use_parallel_residual": len(get(architecture, "decoder.layer").steps) == 1,
        "hidden_dropout": get(architecture, "decoder.layer.feedforward.dropout"),
        "intermediate_size": feedforward.width,
        "hidden_act": write_activation(feedforward.activation),
    }


FAMILIES = (
    Family(
        "stablelm",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, FEEDFORWARD, NORMS, SHARED_NORM),
        "StableLmForCausalLM",
        ignored=(r".*rotary_emb\.inv_freq",),
    ),
)
