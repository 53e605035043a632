"""A.X K1: DeepSeek-V3's latent attention, always with a latent of the queries, and its experts, normed after too."""

from __future__ import annotations

from anyformer.describe import change
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import CORRECTION, FEEDFORWARD, NORMS, ROUTED, SHARED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import pre_norm


def read(config: Config) -> Architecture:
    config.assume(vocab_size=163_840, hidden_size=7168, num_hidden_layers=61, num_attention_heads=64)
    config("q_lora_rank", 1536, kind=SIZE)
    norm, attention = words.rms_norm(config), words.latent_attention(config, q_rank=1536, interleave=True)
    router, counted = words.v3_router(config, groups=8, keep=4, scale=2.5), ("n_routed_experts", "num_local_experts")
    experts = words.experts(config, router, count=192, chosen=8, width=2048, counted=counted)
    experts = words.shared_of(config, experts, 1, "n_shared_experts")
    sparse = change(pre_norm(norm, attention, experts), "experts.norm_after", norm)
    blocks = {"dense": pre_norm(norm, attention, words.feedforward(config, width=18_432)), "experts": sparse}
    kinds = words.mlp_types(config, config("first_k_dense_replace", 1))
    return words.decoder(config, words.layered(blocks.__getitem__, kinds), norm)


def names(architecture: Architecture) -> Names:
    after = {"experts.norm_after": "post_mlp_layernorm"}
    return decoder_names(words.latent_names(architecture), ROUTED, CORRECTION, SHARED, FEEDFORWARD, NORMS, after)


FAMILIES = (Family("axk1", read, names, "AXK1ForCausalLM", inert=("head_dim",)),)
