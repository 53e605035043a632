"""Ling 3.0: Kimi delta attention whose decay is bounded, every few layers gated latent attention, DeepSeek-V3's experts."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import EXPERTS_NORM, ROUTED, SHARED, first
from anyformer.huggingface.families.kimi import NO_TOKENS, read_experts, write_experts
from anyformer.huggingface.families.latent import latent_table, read_latent, read_rope, write_latent, write_stretched
from anyformer.huggingface.families.mixers import convolved, in_order, words
from anyformer.huggingface.families.old_llama import FEEDFORWARD, NORMS, OUTSIDE, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table, To
from anyformer.huggingface.spelling import activation
from anyformer.model import Architecture
from anyformer.parts import (
    ChannelDecay,
    DeltaAttention,
    FeedForward,
    Gate,
    LatentAttention,
    RMSNorm,
    ShortConvolution,
    pre_norm,
)
from anyformer.parts.branch import Sublayer

SIDES = {"query": "q", "key": "k", "value": "v"}
TABLE: Table = {
    **{f"delta_attention.{ours}": f"attention.{theirs}_proj" for ours, theirs in SIDES.items()},
    "delta_attention.norm_before": "input_layernorm",
    "delta_attention.beta": "attention.b_proj",
    "delta_attention.decay.projection": "attention.f_proj",
    "delta_attention.decay.A_log": "attention.A_log",
    "delta_attention.decay.dt_bias": "attention.dt_bias",
    "delta_attention.gate.projection": "attention.g_proj",
    "delta_attention.norm": "attention.o_norm",
    "delta_attention.output": "attention.dense",
    "latent_attention.norm_before": "input_layernorm",
    "latent_attention.gate.projection": "attention.g_proj",
}
OURS: Table = {"latent_attention.output": "attention.dense", "experts.router.correction": "mlp.gate.expert_bias"}


def names(architecture: Architecture) -> Names:
    delta: DeltaAttention = first(architecture, "delta_attention")
    kernel = delta.convolution.kernel if delta.convolution else 0
    convolutions: Table = {
        f"delta_attention.{ours}_convolution": To(f"attention.{theirs}_conv1d", convolved(kernel))
        for ours, theirs in SIDES.items()
    }
    latent = latent_table(first(architecture, "latent_attention"), theirs="attention")
    outside = {**OUTSIDE, "embedding": "model.word_embeddings"}
    tables = (TABLE, convolutions, latent, ROUTED, SHARED, OURS, FEEDFORWARD, NORMS, EXPERTS_NORM)
    return decoder_names(*tables, outside=outside)


def read(config: Config) -> Architecture:
    config.assume(vocab_size=157_184, hidden_size=2560, num_hidden_layers=42, num_attention_heads=32)
    eps = config("rms_norm_eps", 1e-6)
    norm, act = RMSNorm(eps=eps), activation(config("hidden_act", "silu"))
    latent = read_latent(config, q_rank=None, **read_rope(config, theta=6e6, pairing="adjacent"))
    sublayers: dict[str, Sublayer] = {
        "linear": _delta(config, eps, act),
        "full": latent.but(gate=Gate(per="head")),
        "dense": FeedForward(width=config("intermediate_size", 6144), activation=act),
        "experts": read_experts(config, act, experts=512, width=768, groups=8, keep=4, scale=2.5),
    }
    size, dense = config("layer_group_size", 6), config("first_k_dense_replace", 2)
    axes = [
        words(config, "layer_types", lambda i: "linear_attention" if (i + 1) % size else "full_attention"),
        words(config, "mlp_layer_types", lambda i: "dense" if i < dense else "sparse"),
    ]
    return in_order(config, axes, lambda mixer, mlp: pre_norm(norm, sublayers[mixer], sublayers[mlp]), norm)


def _delta(config: Config, eps: float, act: str) -> DeltaAttention:
    """Published files call its head width `head_dim`, and transformers saves that of latent attention by this name."""
    width, kernel = config("head_dim", 128), config("short_conv_kernel_size", 4)
    bound = -config("kda_lower_bound", -5.0)
    return DeltaAttention(
        heads=config("linear_num_heads", None) or config("num_attention_heads", 32),
        key_width=config("linear_head_dim", None) or width,
        convolution=ShortConvolution(kernel=config("linear_conv_kernel_dim", None) or kernel, activation=act),
        decay=ChannelDecay(bound=bound if config("kda_safe_gate", True) else None),
        norm=RMSNorm(eps=eps, cast="after_gain"),
        gate=Gate(),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    delta: DeltaAttention = first(architecture, "delta_attention")
    latent: LatentAttention = first(architecture, "latent_attention")
    assert delta.convolution is not None, "Ling's delta attention has short convolutions"
    bound = first(architecture, "delta_attention").decay.bound
    return {
        **common(architecture),
        **{name: value for name, value in write_latent(latent).items() if name != "q_lora_rank"},
        **write_stretched(latent),
        **write_experts(architecture),
        **NO_TOKENS,
        **kept_twice(delta.heads, delta.key_width, delta.convolution.kernel),
        "kda_safe_gate": bound is not None,
        "kda_lower_bound": -5.0 if bound is None else -bound,
    }


def kept_twice(heads: int, width: int, kernel: int) -> dict[str, Any]:
    """What the class reads, and what it saves."""
    return {
        "head_dim": width,
        "short_conv_kernel_size": kernel,
        "linear_num_heads": heads,
        "linear_head_dim": width,
        "linear_conv_kernel_dim": kernel,
    }


FAMILIES = (
    Family(
        "bailing_hybrid",
        read,
        write,
        names,
        "BailingHybridForCausalLM",
        inert=("mtp_loss_scaling_factor", "num_nextn_predict_layers"),
        ignored=(r"model\.layers\.42\..*",),
    ),
)
