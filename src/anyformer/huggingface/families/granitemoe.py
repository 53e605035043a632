"""Granite 3 MoE: Granite's four multipliers, a softmax over the experts chosen, stored fused; and a shared expert or none."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Rows, Table, To
from anyformer.huggingface.vocabulary import POSITIVE
from anyformer.huggingface.words.names import ATTENTION, NORMS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Router, pre_norm

_FUSED: Table = {
    "experts.router": "block_sparse_moe.router.layer",
    ("experts.gate", "experts.up"): To("block_sparse_moe.input_linear.weight", Rows(dim=1)),
    "experts.down": "block_sparse_moe.output_linear.weight",
}
_SHARED: Table = {
    ("experts.shared.gate", "experts.shared.up"): To("shared_mlp.input_linear", Rows()),
    "experts.shared.down": "shared_mlp.output_linear",
}


def read(config: Config, *, shares: bool = False) -> Architecture:
    scale = config("attention_multiplier", 1.0, kind=POSITIVE)
    norm, heads = words.rms_norm(config), words.attention(config, scale=scale, rotary=words.rotary(config))
    router, counted = Router(over="chosen"), ("num_local_experts",)
    experts = words.experts(config, router, count=8, chosen=2, counted=counted, size="intermediate_size")
    if shares:
        experts = words.shared_of_width(config, experts, 0, "shared_intermediate_size")
    block = words.multiplied(pre_norm(norm, heads, experts), float(config("residual_multiplier", 1.0)))
    scale = float(config("embedding_multiplier", 1.0))
    layers = words.repeated(config, block)
    return words.decoder(config, layers, norm, embedding_scale=scale, scale=words.logits_divided(config))


def read_shared(config: Config) -> Architecture:
    return read(config, shares=True)


FAMILIES = (
    Family("granitemoe", read, decoder_names(ATTENTION, _FUSED, NORMS), "GraniteMoeForCausalLM"),
    Family(
        "granitemoeshared",
        read_shared,
        decoder_names(ATTENTION, _FUSED, _SHARED, NORMS),
        "GraniteMoeSharedForCausalLM",
    ),
)
