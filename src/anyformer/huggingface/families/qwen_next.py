"""Qwen3-Next and the language models of Qwen3.5: gated delta nets, every few layers gated attention; experts or none."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import (
    EXPERTS_NORM,
    QK_NORMS,
    ROUTED,
    expert_layers,
    first,
    heads,
    read_partial,
    shared_names,
    sublayers,
    write_partial,
)
from anyformer.huggingface.families.mixers import feedforward_width, in_order, joined, kinds, words
from anyformer.huggingface.families.old_llama import ATTENTION, FEEDFORWARD, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Groups as PerHead
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.spelling import activation, rope_parameters, write_activation
from anyformer.huggingface.vocabulary import SIZE
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    DeltaAttention,
    Experts,
    FeedForward,
    Gate,
    Renormalise,
    RMSNorm,
    Router,
    ScalarDecay,
    SharedExpert,
    ShortConvolution,
    pre_norm,
)
from anyformer.parts.branch import Sublayer
from anyformer.parts.heads import PROJECTIONS

BRANCHES = {"delta_attention": "linear_attention", "attention": "full_attention"}
NETWORKS: Table = {
    **FEEDFORWARD,
    **ROUTED,
    **NORMS,
    **EXPERTS_NORM,
    **shared_names("mlp.shared_expert"),
    "experts.shared_gate": "mlp.shared_expert_gate",
}


def one_plus(eps: float) -> RMSNorm:
    """Qwen's norm around the sublayers: its gain is 1 + w."""
    return RMSNorm(eps=eps, gain="one_plus_weight", cast="after_gain")


def read_delta(config: Config, *, eps: float, **absent: int) -> DeltaAttention:
    """A gated delta net in Qwen's words. `absent`: what absent keys mean, where they are not Qwen's."""

    def count(name: str, default: int) -> int:
        value = config(f"linear_{name}", None)
        return absent.get(name, default) if value is None else int(value)

    act = activation(config("hidden_act", "silu"))
    return DeltaAttention(
        heads=count("num_key_heads", 16),
        value_heads=count("num_value_heads", 32),
        key_width=count("key_head_dim", 128),
        value_width=count("value_head_dim", 128),
        convolution=ShortConvolution(kernel=count("conv_kernel_dim", 4), activation=act),
        decay=ScalarDecay(),
        norm=RMSNorm(eps=eps),
        gate=Gate(activation="silu"),
    )


def write_delta(delta: DeltaAttention) -> dict[str, Any]:
    """The same words."""
    assert delta.convolution is not None, "a gated delta net has short convolutions"
    return {
        "linear_num_key_heads": delta.heads,
        "linear_num_value_heads": delta.value_heads,
        "linear_key_head_dim": delta.key_width,
        "linear_value_head_dim": delta.value_width,
        "linear_conv_kernel_dim": delta.convolution.kernel,
    }


def delta_table(delta: DeltaAttention, norm: str = "norm", output: str = "out_proj") -> Table:
    """Names of a gated delta net that do not depend on how its projections are stored."""
    assert delta.convolution is not None, "a gated delta net has short convolutions"
    convolutions = tuple(f"delta_attention.{side}_convolution" for side in ("query", "key", "value"))
    return {
        "delta_attention.norm_before": "input_layernorm",
        convolutions: To("linear_attn.conv1d", joined(delta.convolution.kernel)),
        "delta_attention.decay.A_log": "linear_attn.A_log",
        "delta_attention.decay.dt_bias": "linear_attn.dt_bias",
        "delta_attention.norm": f"linear_attn.{norm}",
        "delta_attention.output": f"linear_attn.{output}",
    }


QKV = tuple(f"delta_attention.{side}" for side in ("query", "key", "value"))
GATE, BETA, DECAY = (f"delta_attention.{name}" for name in ("gate.projection", "beta", "decay.projection"))


def together(delta: DeltaAttention) -> Table:
    """Projections of Qwen3-Next: a share of each in every key head's rows."""
    return {
        (*QKV, GATE): To("linear_attn.in_proj_qkvz", PerHead(delta.heads)),
        (BETA, DECAY): To("linear_attn.in_proj_ba", PerHead(delta.heads)),
    }


def apart(delta: DeltaAttention) -> Table:
    """Projections of Qwen3.5."""
    return {
        QKV: To("linear_attn.in_proj_qkv", Rows()),
        GATE: "linear_attn.in_proj_z",
        BETA: "linear_attn.in_proj_b",
        DECAY: "linear_attn.in_proj_a",
    }


def _names(architecture: Architecture, projections: Any) -> Names:
    table: dict[Any, Any] = {**ATTENTION, **QK_NORMS, **NETWORKS}
    del table["attention.query"]
    for attention in sublayers(architecture, "attention")[:1]:
        table["attention.query", "attention.gate.projection"] = To("self_attn.q_proj", PerHead(attention.heads))
    for delta in sublayers(architecture, "delta_attention")[:1]:
        table |= delta_table(delta) | projections(delta)
    return decoder_names(table)


def _read(config: Config, networks: dict[str, Sublayer], mlps: list[str], *, kv_heads: int) -> Architecture:
    config.expect("use_sliding_window", False)
    eps, table = config("rms_norm_eps", 1e-6), rope_parameters(config)
    norm, biased = one_plus(eps), bool(config("attention_bias", False))
    # Sections of an image's positions: a text has the same position in all three.
    plain = {name: value for name, value in table.items() if name not in ("mrope_section", "mrope_interleaved")}
    attention = Attention(
        heads=config("num_attention_heads", 16),
        kv_heads=config("num_key_value_heads", kv_heads),
        head_width=config("head_dim", 256),
        bias=PROJECTIONS if biased else (),
        qk_norm=norm,
        rotary=read_partial(plain, config("partial_rotary_factor", 0.25)),
        gate=Gate(bias=biased),
        dropout=config("attention_dropout", 0.0),
    )
    mixers: dict[str, Sublayer] = {"full": attention, "linear": read_delta(config, eps=eps)}
    interval = config("full_attention_interval", 4)
    kind = words(config, "layer_types", lambda i: "linear_attention" if (i + 1) % interval else "full_attention")
    return in_order(config, [kind, mlps], lambda mixer, mlp: pre_norm(norm, mixers[mixer], networks[mlp]), norm)


def _experts(config: Config, *, experts: int, chosen: int, renormalises: bool) -> Experts:
    act = activation(config("hidden_act", "silu"))
    shared = FeedForward(width=config("shared_expert_intermediate_size", 512), activation=act)
    return Experts(
        experts=config("num_experts", experts),
        chosen=config("num_experts_per_tok", chosen),
        width=config("moe_intermediate_size", 512),
        activation=act,
        router=Router(renormalise=Renormalise(eps=0.0) if renormalises else None),
        shared=SharedExpert(feedforward=shared, gate="sigmoid"),
    )


def _dense(config: Config, width: int) -> FeedForward:
    return FeedForward(width=config("intermediate_size", width), activation=activation(config("hidden_act", "silu")))


def read_next(config: Config) -> Architecture:
    config.assume(vocab_size=151_936, hidden_size=2048, num_hidden_layers=48)
    experts = _experts(config, experts=512, chosen=10, renormalises=config("norm_topk_prob", True))
    step, dense = config("decoder_sparse_step", 1, kind=SIZE), config("mlp_only_layers", None) or []
    mlps = ["experts" if i not in dense and (i + 1) % step == 0 else "dense" for i in range(config("num_hidden_layers"))]
    return _read(config, {"dense": _dense(config, 5632), "experts": experts}, mlps, kv_heads=2)


def read_moe(config: Config) -> Architecture:
    config.assume(vocab_size=248_320, hidden_size=2048, num_hidden_layers=40)
    experts = _experts(config, experts=256, chosen=8, renormalises=True)
    return _read(config, {"experts": experts}, ["experts"] * config("num_hidden_layers"), kv_heads=2)


def read_dense(config: Config) -> Architecture:
    config.assume(vocab_size=248_320, hidden_size=4096, num_hidden_layers=32)
    return _read(config, {"dense": _dense(config, 12288)}, ["dense"] * config("num_hidden_layers"), kv_heads=4)


def write_next(architecture: Architecture) -> dict[str, Any]:
    return write_moe(architecture) | {
        "norm_topk_prob": first(architecture, "experts").router.renormalise is not None,
        "intermediate_size": feedforward_width(architecture, 5632),
        "mlp_only_layers": [i for i, sparse in enumerate(expert_layers(architecture)) if not sparse],
    }


def write_moe(architecture: Architecture) -> dict[str, Any]:
    experts: Experts = first(architecture, "experts")
    assert experts.shared is not None, "Qwen's experts have a shared one beside them"
    return _written(architecture) | {
        "hidden_act": write_activation(experts.activation),
        "num_experts": experts.experts,
        "num_experts_per_tok": experts.chosen,
        "moe_intermediate_size": experts.width,
        "shared_expert_intermediate_size": experts.shared.feedforward.width,
    }


def write_dense(architecture: Architecture) -> dict[str, Any]:
    feedforward: FeedForward = first(architecture, "feedforward")
    return _written(architecture) | {
        "hidden_act": write_activation(feedforward.activation),
        "intermediate_size": feedforward.width,
    }


def _written(architecture: Architecture) -> dict[str, Any]:
    """What all three write alike."""
    attention: Attention = first(architecture, "attention")
    return {
        **common(architecture),
        **heads(attention),
        **write_delta(first(architecture, "delta_attention")),
        "attention_bias": bool(attention.bias),
        **write_partial(attention),
        "layer_types": kinds(architecture, BRANCHES),
    }


FAMILIES = (
    Family(
        "qwen3_next",
        read_next,
        write_next,
        lambda architecture: _names(architecture, together),
        "Qwen3NextForCausalLM",
        ignored=(r"mtp\..*",),
    ),
    Family(
        "qwen3_5_moe_text",
        read_moe,
        write_moe,
        lambda architecture: _names(architecture, apart),
        "Qwen3_5MoeForCausalLM",
        inert=("mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"),
        ignored=(r"mtp\..*",),
    ),
    Family(
        "qwen3_5_text",
        read_dense,
        write_dense,
        lambda architecture: _names(architecture, apart),
        "Qwen3_5ForCausalLM",
        inert=("mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"),
        ignored=(r"mtp\..*",),
    ),
)
