"""DiffLlama: Llama whose heads are the differences of two attention maps, weighed by a number that depends on the layer."""

from __future__ import annotations

import math
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.decoder import BUFFERS, each, feedforward, model
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, NORMS, common, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import read_rope, write_activation, write_rope
from anyformer.model import Architecture
from anyformer.parts import DifferentialAttention, FeedForward, RMSNorm, pre_norm
from anyformer.parts.attention.heads import PROJECTIONS

LAMBDAS: Table = {f"attention.lambda_{ours}_{i}": f"self_attn.lambda_{ours[0]}{i}" for ours in ("query", "key") for i in (1, 2)}
LAYER: Table = {
    **{f"differential_{ours}": theirs for ours, theirs in {**ATTENTION, **LAMBDAS}.items()},
    "differential_attention.norm_before": NORMS["attention.norm_before"],
}


def read(config: Config) -> Architecture:
    config.expect("attention_dropout", 0.0, why="the paper does not say which of the two maps drops what")
    eps = config("rms_norm_eps", 1e-5)
    heads = DifferentialAttention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", None),
        head_width=config("head_dim", None),
        bias=PROJECTIONS if config("attention_bias", False) else (),
        rotary=read_rope(config),
        head_norm=RMSNorm(eps=eps, gain="none"),
    )
    norm, network = RMSNorm(eps=eps), feedforward(config)
    layers = [
        (f"layer_{i}", pre_norm(norm, heads.but(lambda_init=0.8 - 0.6 * math.exp(-0.3 * i)), network))
        for i in range(config("num_hidden_layers"))
    ]
    return model(config, layers, norm)


def write(architecture: Architecture) -> dict[str, Any]:
    heads: DifferentialAttention = each(architecture, "differential_attention.sublayer")[0]
    network: FeedForward = each(architecture, "feedforward.sublayer")[0]
    return {
        **common(architecture),
        "num_attention_heads": heads.heads,
        "num_key_value_heads": heads.kv_heads,
        "head_dim": heads.head_width,
        "attention_bias": bool(heads.bias),
        **write_rope(heads.rotary),
        "intermediate_size": network.width,
        "hidden_act": write_activation(network.activation),
    }


FAMILIES = (
    Family(
        "diffllama",
        read,
        write,
        lambda architecture: decoder_names(LAYER, FEEDFORWARD, NORMS),
        "DiffLlamaForCausalLM",
        # How the lambdas start.
        inert=("lambda_std_dev",),
        ignored=BUFFERS,
    ),
)
