"""Granite: Llama with its scales as numbers; HyperCLOVA X: norms after branches too; Granite MoE; SWA: windows and sinks.

Granite 4 (granitemoehybrid): Mamba-2 in most layers, with or without experts beside a shared one.
"""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING, has_part
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.vocabulary import POSITIVE
from anyformer.huggingface.words.layers import MIXERS, Layers
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, NORMS, SINKS, decoder_names
from anyformer.huggingface.words.state_space import KERNELS, LINEAR, MAMBA2, mamba2, mamba2_names
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, Experts, FeedForward, Mamba2, Router, pre_norm, sandwich


def read(config: Config) -> Architecture:
    heads = words.attention(config, rotary=words.rotary(config), scale=config("attention_multiplier", 1.0))
    return _alike(config, heads, _network(config))


def read_swa(config: Config) -> Architecture:
    config.assume(rms_norm_eps=1e-5, tie_word_embeddings=True, sliding_window=128)
    heads = words.attention(config, kv_heads=4, scale=config("attention_multiplier", 1.0), sink="head")
    return _by_layer(config, heads, _network(config))


def read_clova(config: Config) -> Architecture:
    scale = config("attention_multiplier", None, "attention.scale")
    heads = words.attention(config, rotary=words.rotary(config), scale=scale)
    wired = sandwich if config("use_post_norm", True, has_part("attention.norm_after")) else pre_norm
    layers = words.repeated(config, _block(config, heads, _network(config), wired))
    return _model(config, layers, config("logits_scaling", 1.0, "head.scale"))


def read_moe(config: Config) -> Architecture:
    return _alike(config, _heads_of_moe(config, rotary=words.rotary(config)), _experts(config))


def read_shared(config: Config) -> Architecture:
    return _alike(config, _heads_of_moe(config, rotary=words.rotary(config)), _experts_beside_shared(config))


def read_moe_swa(config: Config) -> Architecture:
    config.assume(sliding_window=128)
    return _by_layer(config, _heads_of_moe(config, sink="head"), _experts_beside_shared(config))


def read_hybrid(config: Config) -> Architecture:
    config.assume(vocab_size=32_000, hidden_size=4096, num_hidden_layers=32)
    config.expect("normalization_function", "rmsnorm")
    positions = words.rotary(config)
    rotary = positions if config("position_embedding_type", None, _rotation) == "rope" else None
    scale = config("attention_multiplier", 1.0, kind=POSITIVE)
    mixers: dict[str, Any] = {
        "full": words.attention(config, heads=32, rotary=rotary, scale=scale),
        "linear": mamba2(config, eps=config("rms_norm_eps", 1e-6)),
    }
    kinds = words.types(config, lambda layer: LINEAR, known=MIXERS, at=lambda target: target.branches(_BRANCHES))
    network = _network_of_hybrid(config)
    return _model(
        config, words.layered(lambda kind: _block(config, mixers[kind], network), kinds), words.logits_divided(config)
    )


_BRANCHES = {MAMBA2: LINEAR, "attention": FULL}


def _rotation(target: Target) -> str | None:
    return "rope" if any(target.each("attention.rotary")) else None


def _network_of_hybrid(config: Config) -> FeedForward | Experts:
    """Experts beside a shared one; with no experts the shared one alone."""
    if config("num_local_experts", 8, lambda target: target.get("experts.experts", 0)):
        config.assume(intermediate_size=11008)
        experts = _experts(config)
        return words.shared_of_width(config, experts, 1024, "shared_intermediate_size")
    for unused in ("intermediate_size", "num_experts_per_tok"):
        config(unused, None, nowhere)
    return words.feedforward(config, size="shared_intermediate_size", width=1024)


def _network(config: Config) -> FeedForward:
    return words.feedforward(config, bias=config("mlp_bias", False))


def _heads_of_moe(config: Config, **fields: Any) -> Attention:
    return words.attention(config, scale=config("attention_multiplier", 1.0, kind=POSITIVE), **fields)


def _experts(config: Config) -> Experts:
    router, counted = Router(over="chosen"), ("num_local_experts",)
    return words.experts(config, router, count=8, chosen=2, counted=counted, size="intermediate_size")


def _experts_beside_shared(config: Config) -> Experts:
    return words.shared_of_width(config, _experts(config), 0, "shared_intermediate_size")


def _alike(config: Config, heads: Attention, network: FeedForward | Experts) -> Architecture:
    """A model of equal layers."""
    return _model(config, words.repeated(config, _block(config, heads, network)), words.logits_divided(config))


def _by_layer(config: Config, heads: Attention, network: FeedForward | Experts) -> Architecture:
    """A model whose layers differ in their mask and in the theta of their rotary positions."""
    bases, rotary = words.rotary_by_layer(config)

    def block(kind: str, base: str) -> Block:
        return _block(config, heads.but(mask=words.mask(config, kind), rotary=rotary[base]), network)

    layers = words.layered(block, words.windows(config, lambda layer: SLIDING if layer % 4 else FULL), bases)
    return _model(config, layers, words.logits_divided(config))


def _block(config: Config, heads: Attention | Mamba2, network: FeedForward | Experts, wired: Any = pre_norm) -> Block:
    return words.multiplied(wired(words.rms_norm(config), heads, network), float(config("residual_multiplier", 1.0)))


def _model(config: Config, layers: Layers, scale: float) -> Architecture:
    embedding_scale = float(config("embedding_multiplier", 1.0))
    return words.decoder(config, layers, words.rms_norm(config), embedding_scale=embedding_scale, scale=scale)


_FUSED: Table = {
    "experts.router": "block_sparse_moe.router.layer",
    ("experts.gate", "experts.up"): To("block_sparse_moe.input_linear.weight", Rows(dim=1)),
    "experts.down": "block_sparse_moe.output_linear.weight",
}
_PLAIN: Table = {
    "experts.router": "block_sparse_moe.router",
    ("experts.gate", "experts.up"): To("block_sparse_moe.experts.gate_up_proj", Rows(dim=1)),
    "experts.down": "block_sparse_moe.experts.down_proj",
}
_SHARED: Table = {
    ("experts.shared.gate", "experts.shared.up"): To("shared_mlp.input_linear", Rows()),
    "experts.shared.down": "shared_mlp.output_linear",
}
_DENSE: Table = {
    ("feedforward.gate", "feedforward.up"): To("shared_mlp.input_linear", Rows()),
    "feedforward.down": "shared_mlp.output_linear",
    f"{MAMBA2}.norm_before": "input_layernorm",
}


def names_of_hybrid(architecture: Architecture) -> Names:
    return decoder_names(ATTENTION, _FUSED, _SHARED, NORMS, _DENSE, mamba2_names(architecture, "mamba"))


_AFTER = {"attention.norm_after": "post_norm1", "feedforward.norm_after": "post_norm2"}
_NAMES = decoder_names(ATTENTION, SINKS, FEEDFORWARD, NORMS, _AFTER)
_MOE_NAMES = decoder_names(ATTENTION, _FUSED, _SHARED, NORMS)
FAMILIES = (
    Family("granite", read, _NAMES, "GraniteForCausalLM"),
    Family("granite_swa", read_swa, _NAMES, "GraniteSWAForCausalLM"),
    Family("hyperclovax", read_clova, _NAMES, "HyperCLOVAXForCausalLM"),
    Family("granitemoe", read_moe, _MOE_NAMES, "GraniteMoeForCausalLM"),
    Family("granitemoeshared", read_shared, _MOE_NAMES, "GraniteMoeSharedForCausalLM"),
    Family("granitemoehybrid", read_hybrid, names_of_hybrid, "GraniteMoeHybridForCausalLM", inert=(*KERNELS, "init_method")),
    Family("granitemoe_swa", read_moe_swa, decoder_names(ATTENTION, SINKS, _PLAIN, _SHARED, NORMS), "GraniteMoeSWAForCausalLM"),
)
