"""Hunyuan dense: Llama with query and key heads normed after the rotation, and a base stretched by a fixed factor."""

from __future__ import annotations

import math
from typing import Any

from anyformer.huggingface.config import Config, HuggingFaceError
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, feedforward, model, needs, repeated
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import read_rotary, rope_parameters
from anyformer.huggingface.vocabulary import POSITIVE, SIZE
from anyformer.model import Architecture
from anyformer.parts import QKNorm, RMSNorm, Rotary, pre_norm

QK_NORM: Table = {
    "attention.query_norm": "self_attn.query_layernorm",
    "attention.key_norm": "self_attn.key_layernorm",
}


def read(config: Config) -> Architecture:
    needs(config, "head_dim")
    config.expect("use_qk_norm", True)
    config.expect("use_cla", False)
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    heads = attention(config, rotary=read_stretched(config), qk_norm=QKNorm(norm=norm, at="after_rotary"))
    return model(config, repeated(config, pre_norm(norm, heads, feedforward(config))), norm)


def read_stretched(config: Config) -> Rotary:
    """`dynamic` with an alpha is theta * alpha^(E / (E - 2)) at every length, whatever else the table says."""
    table = rope_parameters(config)
    alpha = table.get("alpha")
    if table["rope_type"] != "dynamic" or not alpha:
        return read_rotary(table, unread=("alpha",))
    return Rotary(theta=stretched(config, float(table["rope_theta"]), alpha, config("head_dim", kind=SIZE)))


def stretched(config: Config, theta: float, alpha: float, E: int) -> float:
    """theta * alpha^(E / (E - 2))."""
    new: float = theta * alpha ** (E / (E - 2)) if E > 2 else math.inf
    if not POSITIVE.fits(new):
        raise HuggingFaceError(f"{config.where}: alpha = {alpha} and heads of {E} features stretch theta = {theta:g} too far")
    return new


def write(architecture: Architecture) -> dict[str, Any]:
    return {**decoder.write(architecture), "attention_bias": decoder.biased(architecture)}


FAMILIES = (
    Family(
        "hunyuan_v1_dense",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, QK_NORM, FEEDFORWARD, NORMS),
        "HunYuanDenseV1ForCausalLM",
        inert=("eod_token_id",),
        ignored=BUFFERS,
    ),
)
