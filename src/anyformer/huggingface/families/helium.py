"""Helium and ERNIE 4.5: Llama with adjacent rotary pairs."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import pre_norm


def read(config: Config) -> Architecture:
    config.assume(num_key_value_heads=20, head_dim=128)
    words.needs(config, "num_key_value_heads", "head_dim")
    norm, network = words.rms_norm(config, 1e-8, cast="after_gain"), words.feedforward(config, bias=config("mlp_bias", False))
    rotary = words.rotary(config, theta=100_000.0, pairing="adjacent")
    heads = words.attention(config, rotary=rotary, bias=words.biases(config, names=words.QKV))
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, network)), norm)


def read_ernie(config: Config) -> Architecture:
    config.expect("attention_dropout", 0.0, why="the model type drops no attention weights")
    norm, bias = words.rms_norm(config, 1e-5), config("use_bias", False)
    rotary = words.rotary(config, theta=500_000.0, pairing="adjacent", rotate_in="fp32")
    heads = words.attention(config, kv_heads=2, head_width=128, rotary=rotary, bias=words.ALL if bias else ())
    block = pre_norm(norm, heads, words.feedforward(config, bias=bias))
    return words.decoder(config, words.repeated(config, block), norm, tied=True)


_NAMES = decoder_names(ATTENTION, FEEDFORWARD, NORMS)
FAMILIES = (
    Family("helium", read, _NAMES, "HeliumForCausalLM"),
    Family("ernie4_5", read_ernie, _NAMES, "Ernie4_5ForCausalLM"),
)
