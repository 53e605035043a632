"""gpt-oss: sinks, alternating windows, experts with biases and interleaved gate and up columns (arXiv 2508.10925)."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Alternating, Table, Then, To, Transposed
from anyformer.huggingface.words.names import ATTENTION, NORMS, SINKS, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Router

ALPHA = 1.702
"""The alpha of `quick_gelu`: gate * sigmoid(alpha * gate)."""
_YARN = {"rope_type": "yarn", "factor": 32.0, "truncate": False, "original_max_position_embeddings": 4096}
_EXPERTS: Table = {
    "experts.router": "mlp.router",
    ("experts.gate", "experts.up"): To("mlp.experts.gate_up_proj", Then(Transposed(), Alternating(dim=1))),
    ("experts.gate_bias", "experts.up_bias"): To("mlp.experts.gate_up_proj_bias", Alternating(dim=1)),
    "experts.down": To("mlp.experts.down_proj", Transposed()),
    "experts.down_bias": "mlp.experts.down_proj_bias",
}


def read(config: Config) -> Architecture:
    config.assume(sliding_window=128, attention_bias=True)
    config.expect("swiglu_alpha", ALPHA)
    norm, table = words.rms_norm(config, 1e-5, cast="after_gain"), words.rope_parameters(config, theta=150_000.0)
    if all(config(name, None) is None for name in ("rope_parameters", "rope_scaling")):
        table = {**_YARN, "rope_theta": table["rope_theta"]}
    heads = words.attention(config, kv_heads=8, head_width=64, sink="head", rotary=words.from_table(table))
    experts = words.experts(
        config,
        Router(over="chosen", bias=True),
        count=128,
        chosen=4,
        counted=("num_local_experts",),
        chosen_key=("num_experts_per_tok", "experts_per_token"),
        size="intermediate_size",
        activation="quick_gelu",
        bias=("gate", "up", "down"),
        clamp=float(config("swiglu_limit", 7.0, "experts.clamp")),
        up_offset=1.0,
    )
    kinds = words.windows(config, words.every(2))
    return words.decoder(config, words.masked_layers(config, norm, heads, experts, kinds), norm)


_NAMES = decoder_names(ATTENTION, SINKS, _EXPERTS, NORMS)
FAMILIES = (Family("gpt_oss", read, _NAMES, "GptOssForCausalLM", inert=("hidden_act", "initial_context_length")),)
