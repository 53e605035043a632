"""Kimi Linear: Kimi delta attention, every few layers latent attention without positions, DeepSeek-V3's experts."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.deepseek import v3_router, write_corrected
from anyformer.huggingface.families.experts import (
    EXPERTS_NORM,
    first,
    mlp_words,
    one_by_one,
    shared_count,
    shared_expert,
    shared_names,
    written_activation,
)
from anyformer.huggingface.families.latent import latent_names, read_latent, write_latent
from anyformer.huggingface.families.mixers import convolved, feedforward_width, in_order, kinds, words
from anyformer.huggingface.families.old_llama import NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Shaped, Table, To
from anyformer.huggingface.spelling import activation
from anyformer.model import Architecture
from anyformer.parts import (
    ChannelDecay,
    DeltaAttention,
    Experts,
    FeedForward,
    Gate,
    RMSNorm,
    ShortConvolution,
    pre_norm,
)
from anyformer.parts.branch import Sublayer

MLP = "block_sparse_moe"
"""What transformers calls the feed-forward network of every layer, with experts or without."""
MLPS: Table = {
    "experts.router": f"{MLP}.gate",
    "experts.router.correction": f"{MLP}.gate.e_score_correction_bias",
    **one_by_one(f"{MLP}.experts", "w1", "w3", "w2"),
    **shared_names(f"{MLP}.shared_experts"),
    **{f"feedforward.{side}": f"{MLP}.{side}_proj" for side in ("gate", "up", "down")},
}
NO_TOKENS = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
"""The class's own ids would stand outside a small vocabulary."""
BRANCHES = {"delta_attention": "linear_attention", "latent_attention": "full_attention"}


def delta_table(delta: DeltaAttention) -> Table:
    """Names of Kimi delta attention."""
    kernel = delta.convolution.kernel if delta.convolution else 0
    sides = {"query": "q", "key": "k", "value": "v"}
    return {
        "delta_attention.norm_before": "input_layernorm",
        **{f"delta_attention.{ours}": f"self_attn.{theirs}_proj" for ours, theirs in sides.items()},
        **{
            f"delta_attention.{ours}_convolution": To(f"self_attn.{theirs}_conv1d", convolved(kernel))
            for ours, theirs in sides.items()
        },
        "delta_attention.beta": "self_attn.b_proj",
        "delta_attention.decay.down": "self_attn.f_a_proj",
        "delta_attention.decay.projection": "self_attn.f_b_proj",
        "delta_attention.decay.A_log": To("self_attn.A_log", Shaped((1, 1, -1, 1))),
        "delta_attention.decay.dt_bias": "self_attn.dt_bias",
        "delta_attention.gate.down": "self_attn.g_a_proj",
        "delta_attention.gate.projection": "self_attn.g_b_proj",
        "delta_attention.norm": "self_attn.o_norm",
        "delta_attention.output": "self_attn.o_proj",
    }


def names(architecture: Architecture) -> Names:
    present = {kind for kind, word in BRANCHES.items() if word in kinds(architecture, BRANCHES)}
    delta = delta_table(first(architecture, "delta_attention")) if "delta_attention" in present else {}
    latent = latent_names(architecture) if "latent_attention" in present else {}
    return decoder_names(delta, latent, MLPS, NORMS, EXPERTS_NORM)


def read(config: Config) -> Architecture:
    config.assume(vocab_size=163_840, hidden_size=2304, num_hidden_layers=27, num_attention_heads=32)
    config.expect("moe_router_activation_func", "sigmoid")
    config.expect("moe_layer_freq", 1)
    config.expect("mla_use_nope", True)
    eps = config("rms_norm_eps", 1e-5)
    norm, act = RMSNorm(eps=eps), activation(config("hidden_act", "silu"))
    sublayers: dict[str, Sublayer] = {
        "linear": read_delta(config, eps=eps, activation=act),
        "full": read_latent(config, q_rank=None, rotary=None),
        "dense": FeedForward(width=config("intermediate_size", 9216), activation=act),
        "experts": read_experts(config, act),
    }
    dense = config("first_k_dense_replace", 1)
    axes = [
        words(config, "layer_types", _absent(config)),
        words(config, "mlp_layer_types", lambda i: "dense" if i < dense else "sparse"),
    ]
    return in_order(config, axes, lambda mixer, mlp: pre_norm(norm, sublayers[mixer], sublayers[mlp]), norm)


def _absent(config: Config) -> Any:
    """Which mixer layer i has where no list says so: published files number the layers from 1."""
    table = config("linear_attn_config", None) or {}
    if "full_attn_layers" in table:
        return lambda i: "full_attention" if i + 1 in table["full_attn_layers"] else "linear_attention"
    return lambda i: "full_attention" if i and i % 4 == 0 else "linear_attention"


def read_delta(config: Config, *, eps: float, activation: str) -> DeltaAttention:
    """Kimi delta attention, from keys of their own or from the published files' table."""
    table = config("linear_attn_config", None) or {}
    width = table.get("head_dim", config("linear_head_dim", 128))
    kernel = table.get("short_conv_kernel_size", config("linear_conv_kernel_dim", 4))
    return DeltaAttention(
        heads=table.get("num_heads", config("linear_num_heads", 32)),
        key_width=width,
        convolution=ShortConvolution(kernel=kernel, activation=activation),
        decay=ChannelDecay(rank=width),
        norm=RMSNorm(eps=eps, cast="after_gain"),
        gate=Gate(rank=width),
    )


def read_experts(
    config: Config, act: str, *, experts: int = 256, width: int = 1024, groups: int = 1, keep: int = 1, scale: float = 2.446
) -> Experts:
    """DeepSeek-V3's experts in Moonshot's words, or DeepSeek's. The keywords are what absent keys mean."""

    def either(name: str, other: str, default: Any) -> Any:
        return config(name, config(other, default))

    router = v3_router(
        either("num_expert_group", "n_group", groups),
        config("topk_group", keep),
        renormalises=either("moe_renormalize", "norm_topk_prob", True),
        scale=config("routed_scaling_factor", scale),
    )
    wide = config("moe_intermediate_size", width)
    return Experts(
        experts=either("num_experts", "num_local_experts", experts),
        chosen=either("num_experts_per_token", "num_experts_per_tok", 8),
        width=wide,
        activation=act,
        router=router,
        shared=shared_expert(either("num_shared_experts", "n_shared_experts", 1) * wide, act),
    )


def write_experts(architecture: Architecture) -> dict[str, Any]:
    """Moonshot's words, and what else says which layer holds what."""
    experts: Experts = first(architecture, "experts")
    router = write_corrected(experts.router)
    return {
        "layer_types": kinds(architecture, BRANCHES),
        "mlp_layer_types": mlp_words(architecture),
        "hidden_act": written_activation(architecture),
        "intermediate_size": feedforward_width(architecture, experts.width),
        "moe_intermediate_size": experts.width,
        "num_experts": experts.experts,
        "num_experts_per_token": experts.chosen,
        "num_shared_experts": shared_count(experts),
        "num_expert_group": router["n_group"],
        "topk_group": router["topk_group"],
        "moe_renormalize": router["norm_topk_prob"],
        "routed_scaling_factor": experts.router.scale,
    }


def write(architecture: Architecture) -> dict[str, Any]:
    delta: DeltaAttention = first(architecture, "delta_attention")
    assert delta.convolution is not None, "Kimi's delta attention has short convolutions"
    return {
        **common(architecture),
        **write_latent(first(architecture, "latent_attention")),
        **write_experts(architecture),
        **NO_TOKENS,
        "linear_num_heads": delta.heads,
        "linear_head_dim": delta.key_width,
        "linear_conv_kernel_dim": delta.convolution.kernel,
    }


FAMILIES = (
    Family(
        "kimi_linear",
        read,
        write,
        names,
        "KimiLinearForCausalLM",
        # Nothing is rotated; and a model without later tokens' predictors has none of them.
        spelt={r"\.mlp\.": f".{MLP}."},
        inert=("head_dim", "rope_theta", "rope_scaling", "num_nextn_predict_layers", "use_grouped_topk"),
    ),
)
