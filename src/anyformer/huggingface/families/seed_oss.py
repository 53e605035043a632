"""Llama under other names: Seed-OSS (biases and dropout of its own), InternLM 3, IQuest-Coder, CWM (windows)."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import pre_norm

_CWM_ROPE = {
    "rope_type": "llama3", "rope_theta": 1_000_000.0, "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip


def read_seed(config: Config) -> Architecture:
    config.assume(attention_dropout=0.1)
    bias = words.QKV if config("attention_bias", True, lambda target: "query" in target("attention.bias")) else ()
    bias += ("output",) if config("attention_out_bias", False, lambda target: "output" in target("attention.bias")) else ()
    heads = words.attention(config, kv_heads=8, head_width=128, rotary=words.rotary(config), bias=bias)
    norm, network = words.rms_norm(config), words.feedforward(config, bias=config("mlp_bias", False))
    block = pre_norm(norm, heads, network, dropout=config("residual_dropout", 0.1))
    return words.decoder(config, words.repeated(config, block), norm)


def read_internlm(config: Config) -> Architecture:
    config.assume(num_key_value_heads=2)
    on_heads = config.either("attention_bias", "qkv_bias", default=False)
    on_network = config.either("mlp_bias", "bias", default=False)
    if on_heads != on_network:
        raise HuggingFaceError(
            f"{config.where}: internlm3 has biases on every projection or on none, and the attention's flag is {on_heads}, "
            f"the feed-forward network's {on_network}"
        )
    return _llama(config, on_heads, on_network)


def read_iquest(config: Config) -> Architecture:
    config.assume(num_key_value_heads=8)
    config.expect_all(clip_qkv=None, use_sliding_window=False)
    return _llama(config, config("attention_bias", False), config("mlp_bias", False))


def _llama(config: Config, on_heads: bool, on_network: bool) -> Architecture:
    norm, bias = words.rms_norm(config, 1e-5), words.ALL if on_heads else ()
    heads = words.attention(config, head_width=128, rotary=words.rotary(config), bias=bias)
    block = pre_norm(norm, heads, words.feedforward(config, bias=on_network))
    return words.decoder(config, words.repeated(config, block), norm)


def read_cwm(config: Config) -> Architecture:
    config.assume(num_key_value_heads=8, head_dim=128, sliding_window=8192)
    words.needs(config, "num_key_value_heads", "head_dim")
    config.expect("attention_bias", False)
    norm, network = words.rms_norm(config, 1e-5), words.feedforward(config, bias=config("mlp_bias", False))
    heads = words.attention(config, rotary=words.rotary_or(config, _CWM_ROPE, theta=1_000_000.0), bias=())
    kinds = words.windows(config, lambda layer: SLIDING if layer % 4 else FULL)
    return words.decoder(config, words.masked_layers(config, norm, heads, network, kinds), norm)


_NAMES = decoder_names(ATTENTION, FEEDFORWARD, NORMS)
FAMILIES = (
    Family("seed_oss", read_seed, _NAMES, "SeedOssForCausalLM"),
    Family("internlm3", read_internlm, _NAMES, "LlamaForCausalLM"),
    Family("iquestcoder", read_iquest, _NAMES, "LlamaForCausalLM", inert=("max_window_layers", "sliding_window")),
    Family("cwm", read_cwm, _NAMES, "CwmForCausalLM"),
)
