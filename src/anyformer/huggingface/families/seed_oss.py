"""Llama under other names: Seed-OSS (biases and dropout of its own), InternLM 3, IQuest-Coder, CWM (windows)."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config, HuggingFaceError
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import (
    BUFFERS,
    attention,
    each,
    feedforward,
    kind,
    masked,
    model,
    needs,
    repeated,
    windows,
)
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names
from anyformer.huggingface.spelling import FULL, SLIDING, read_rope
from anyformer.model import Architecture
from anyformer.parts import RMSNorm, pre_norm
from anyformer.parts.attention.heads import PROJECTIONS, Projection

QKV: tuple[Projection, ...] = ("query", "key", "value")
CWM_ROPE = {
    "rope_type": "llama3", "rope_theta": 1_000_000.0, "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip


def read_seed(config: Config) -> Architecture:
    config.assume(num_key_value_heads=8, head_dim=128, attention_dropout=0.1)
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6))
    bias = QKV if config("attention_bias", True) else ()
    bias += ("output",) if config("attention_out_bias", False) else ()
    heads = attention(config, rotary=read_rope(config), bias=bias)
    network = feedforward(config, bias=config("mlp_bias", False))
    block = pre_norm(norm, heads, network, dropout=config("residual_dropout", 0.1))
    return model(config, repeated(config, block), norm)


def write_seed(architecture: Architecture) -> dict[str, Any]:
    bias = each(architecture, "attention.bias")[0]
    return {
        "head_dim": None,
        **decoder.write(architecture),
        "attention_bias": "query" in bias,
        "attention_out_bias": "output" in bias,
        "mlp_bias": decoder.biased(architecture, "feedforward"),
        "residual_dropout": each(architecture, "attention.dropout")[0],
    }


def read_internlm(config: Config) -> Architecture:
    config.assume(num_key_value_heads=2, head_dim=128)
    on_heads = config("qkv_bias", config("attention_bias", False))
    on_network = config("bias", config("mlp_bias", False))
    if on_heads != on_network:
        raise HuggingFaceError(
            f"{config.where}: internlm3 has biases on every projection or on none, and the attention's flag is {on_heads}, "
            f"the feed-forward network's {on_network}"
        )
    return _llama(config, on_heads)


def read_iquest(config: Config) -> Architecture:
    config.assume(num_key_value_heads=8, head_dim=128)
    config.expect("clip_qkv", None)
    config.expect("use_sliding_window", False)
    return _llama(config, config("attention_bias", False), config("mlp_bias", False))


def _llama(config: Config, on_heads: bool, on_network: bool | None = None) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    heads = attention(config, rotary=read_rope(config), bias=PROJECTIONS if on_heads else ())
    network = feedforward(config, bias=on_heads if on_network is None else on_network)
    return model(config, repeated(config, pre_norm(norm, heads, network)), norm)


def write_llama(architecture: Architecture) -> dict[str, Any]:
    return {
        "head_dim": None,
        **decoder.write(architecture),
        "attention_bias": decoder.biased(architecture),
        "mlp_bias": decoder.biased(architecture, "feedforward"),
    }


def read_cwm(config: Config) -> Architecture:
    config.assume(num_key_value_heads=8, head_dim=128, sliding_window=8192)
    needs(config, "num_key_value_heads", "head_dim")
    config.expect("attention_bias", False)
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-5))
    rotary = decoder.rope_or(config, CWM_ROPE, theta=1_000_000.0)
    network = feedforward(config, bias=config("mlp_bias", False))
    usual = [SLIDING if layer % 4 else FULL for layer in range(config("num_hidden_layers"))]
    layers = [
        (kind(window), pre_norm(norm, attention(config, rotary=rotary, mask=masked(window), bias=()), network))
        for window in windows(config, usual)
    ]
    return model(config, layers, norm)


def write_cwm(architecture: Architecture) -> dict[str, Any]:
    return {
        **decoder.write(architecture),
        **decoder.write_windows(architecture, default=8192),
        "mlp_bias": decoder.biased(architecture, "feedforward"),
    }


def names(architecture: Architecture) -> Names:
    return decoder_names(ATTENTION, FEEDFORWARD, NORMS)


FAMILIES = (
    Family("seed_oss", read_seed, write_seed, names, "SeedOssForCausalLM", ignored=BUFFERS),
    Family("internlm3", read_internlm, write_llama, names, "LlamaForCausalLM", ignored=BUFFERS),
    Family(
        "iquestcoder",
        read_iquest,
        write_llama,
        names,
        "LlamaForCausalLM",
        inert=("max_window_layers", "sliding_window"),
        ignored=BUFFERS,
    ),
    Family("cwm", read_cwm, write_cwm, names, "CwmForCausalLM", ignored=BUFFERS),
)
