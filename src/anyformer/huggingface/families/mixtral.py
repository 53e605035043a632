"""Mixtral: Mistral whose layers hold experts, of which the best two are weighed by a softmax over them (arXiv 2401.04088)."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.words.names import ATTENTION, NORMS, NUMBERED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Router, pre_norm


def read(config: Config) -> Architecture:
    config.expect("router_jitter_noise", 0.0, 0, why="its noise reaches the experts too")
    norm, rotary = words.rms_norm(config, 1e-5), words.rotary(config, theta=1e6)
    heads = words.attention(config, kv_heads=8, bias=(), mask=words.mask_of_all(config), rotary=rotary)
    router, counted = Router(renormalise=words.EXACT), ("num_local_experts",)
    experts = words.experts(config, router, count=8, chosen=2, counted=counted, size="intermediate_size")
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, experts)), norm)


FAMILIES = (Family("mixtral", read, decoder_names(ATTENTION, NUMBERED, NORMS), "MixtralForCausalLM"),)
