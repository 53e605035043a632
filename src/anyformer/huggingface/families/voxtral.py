"""Voxtral Realtime's text model: Mistral, whose networks read a norm that knows the delay between sound and text."""

from __future__ import annotations

from anyformer.describe import change
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, decoder_names
from anyformer.model import Architecture
from anyformer.parts import DelayNorm, pre_norm


def read(config: Config) -> Architecture:
    config.assume(sliding_window=4096)
    norm, rotary = words.rms_norm(config), words.rotary(config)
    heads = words.attention(config, kv_heads=8, bias=(), mask=words.mask_of_all(config), rotary=rotary)
    block = change(pre_norm(norm, heads, words.feedforward(config)), "feedforward.norm_before", DelayNorm(norm=norm))
    return words.decoder(config, words.repeated(config, block), norm)


_NORMS: Table = {
    "attention.norm_before": "input_layernorm",
    "feedforward.norm_before.norm": "post_attention_layernorm",
    "feedforward.norm_before.down": "ada_rms_norm.linear1",
    "feedforward.norm_before.up": "ada_rms_norm.linear2",
}
FAMILIES = (Family("voxtral_realtime_text", read, decoder_names(ATTENTION, FEEDFORWARD, _NORMS), ""),)
