"""Aria's text model: Llama's attention, and in every layer experts in fused tensors beside a shared one."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Rows, Table, Then, To, Transposed
from anyformer.huggingface.words.names import ATTENTION, NORMS, SHARED, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Router, pre_norm

_EXPERTS: Table = {
    "experts.router": "mlp.router",
    ("experts.gate", "experts.up"): To("mlp.experts.fc1.weight", Then(Transposed(), Rows(1))),
    "experts.down": To("mlp.experts.fc2.weight", Transposed()),
}


def read(config: Config) -> Architecture:
    config.assume(vocab_size=32_000, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32)
    norm, heads = words.rms_norm(config), words.attention(config, rotary=words.rotary(config))
    config.expect("hidden_act", "silu", why="its experts have no other activation, whatever the key says")
    experts = words.experts(
        config,
        Router(over="chosen"),
        count=8,
        chosen=2,
        width=4096,
        counted=("moe_num_experts",),
        chosen_key=("moe_topk",),
        size="intermediate_size",
        activation="silu",
    )
    config("mlp_bias", False, lambda target: bool(target.get("experts.shared.feedforward.bias")))
    config.expect("mlp_bias", False, why="only its shared expert would have the bias")
    shared = words.shared_of(config, experts, 2, "moe_num_shared_experts")
    return words.decoder(config, words.repeated(config, pre_norm(norm, heads, shared)), norm)


FAMILIES = (
    Family(
        "aria_text",
        read,
        decoder_names(ATTENTION, _EXPERTS, SHARED, NORMS),
        "AriaTextForCausalLM",
        older_names={r"\.experts\.gate_up_proj$": ".experts.fc1.weight", r"\.experts\.down_proj$": ".experts.fc2.weight"},
    ),
)
