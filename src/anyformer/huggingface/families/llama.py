"""Llama: RMS pre-norm, rotary positions, gated feed-forward."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import pre_norm


def read(config: Config) -> Architecture:
    norm = words.rms_norm(config)
    network = words.feedforward(config, bias=config("mlp_bias", False))
    block = pre_norm(norm, words.attention(config, rotary=words.rotary(config)), network)
    return words.decoder(config, words.repeated(config, block), norm)


FAMILIES = (Family("llama", read, decoder_names(ATTENTION, FEEDFORWARD, NORMS), "LlamaForCausalLM"),)
