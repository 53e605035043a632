"""BitNet b1.58, with its weights as trained: Llama with a norm before each output projection, and squared ReLU in the gate."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, feedforward, model, repeated
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import read_rope
from anyformer.model import Architecture
from anyformer.parts import RMSNorm, pre_norm

SUB_NORMS: Table = {
    "attention.sub_norm": "self_attn.attn_sub_norm",
    "feedforward.sub_norm": "mlp.ffn_sub_norm",
}


def read(config: Config) -> Architecture:
    config.assume(num_key_value_heads=5, hidden_act="relu2")
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    heads = attention(config, rotary=read_rope(config, theta=500_000.0), sub_norm=norm)
    network = feedforward(config).but(sub_norm=norm)
    return model(config, repeated(config, pre_norm(norm, heads, network)), norm)


def write(architecture: Architecture) -> dict[str, Any]:
    return {**decoder.write(architecture), "attention_bias": decoder.biased(architecture)}


FAMILIES = (
    Family(
        "bitnet",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, FEEDFORWARD, NORMS, SUB_NORMS),
        "BitNetForCausalLM",
        ignored=BUFFERS,
    ),
)
