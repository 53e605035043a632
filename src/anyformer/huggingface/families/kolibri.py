"""Kolibri 1 and Flint: rotary positions in windows only, sigmoid routers; sandwich norms, or sinks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import (
    EXPERTS_NORM,
    QK_NORMS,
    ROUTED,
    decoder,
    dense_width,
    expert_layers,
    first,
    heads,
    label,
    layer_types,
    layer_words,
    shared_expert,
    shared_names,
    sublayers,
    window_size,
    written_activation,
)
from anyformer.huggingface.families.old_llama import ATTENTION, FEEDFORWARD, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Table
from anyformer.huggingface.spelling import FULL, SLIDING, activation, read_rotary, rope_parameters, write_rope
from anyformer.huggingface.vocabulary import SIZE
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Correction,
    Experts,
    FeedForward,
    Renormalise,
    RMSNorm,
    Router,
    TopK,
    Window,
    pre_norm,
    sandwich,
)
from anyformer.parts.heads import PROJECTIONS
from anyformer.parts.selection import Selection

_KOLIBRI: Table = {
    "attention.norm_before": "input_layernorm",
    "attention.norm_after": "post_attn_norm",
    "experts.norm_before": "post_attention_layernorm",
    "experts.norm_after": "post_ffn_norm",
    "experts.router.correction": "moe.router.expert_bias",
    **shared_names("mlp.shared_experts"),
}
_FLINT: Table = {"attention.sink": "self_attn.softmax_offset", **shared_names("mlp.shared_expert")}


def read_kolibri(config: Config) -> Architecture:
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6))
    windows = layer_words(config, lambda i: SLIDING if (i + 1) % 5 else FULL)
    attentions = _attentions(config, norm)
    choice = TopK(by="logits", correction=Correction())
    experts = _experts(config, choice, count=384, shared=512, renormalises=False)
    return decoder(config, label(windows), [sandwich(norm, attentions[seen], experts) for seen in windows], norm)


def read_flint(config: Config) -> Architecture:
    depth = config("num_hidden_layers")
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6), cast="after_gain")
    windows = layer_words(config, lambda i: FULL if i < 2 or i % 4 == 1 or i == depth - 1 else SLIDING)
    bias = PROJECTIONS if config("attention_bias", False) else ()
    attentions = {seen: each.but(bias=bias, sink="head") for seen, each in _attentions(config, norm).items()}
    experts = _experts(config, TopK(), count=256, shared=1024, renormalises=True)
    feedforward = FeedForward(width=config("intermediate_size", 6144), activation=experts.activation)
    wide: Mapping[str, Experts | FeedForward] = {"experts": experts, "dense": feedforward}
    step, dense = config("decoder_sparse_step", 1, kind=SIZE), config("mlp_only_layers", None)
    dense = [0, 1] if dense is None else dense
    mlps = ["experts" if i not in dense and (i + 1) % step == 0 else "dense" for i in range(depth)]
    blocks = [pre_norm(norm, attentions[seen], wide[mlp]) for seen, mlp in zip(windows, mlps, strict=True)]
    return decoder(config, label(windows, mlps), blocks, norm)


def _attentions(config: Config, norm: RMSNorm) -> dict[str, Attention]:
    """By our word for a layer."""
    full = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", 4),
        head_width=config("head_dim", 128),
        qk_norm=norm,
        dropout=config("attention_dropout", 0.0),
    )
    local = full.but(rotary=read_rotary(rope_parameters(config)), mask=Window(size=config("sliding_window", 513)))
    return {"full": full, "local": local}


def _experts(config: Config, choice: Selection, *, count: int, shared: int, renormalises: bool) -> Experts:
    """The experts; the keywords are what absent keys mean."""
    act = activation(config("hidden_act", "silu"))
    return Experts(
        experts=config("num_experts", config("num_local_experts", count)),
        chosen=config("num_experts_per_tok", 6),
        width=config("moe_intermediate_size", 512),
        activation=act,
        router=Router(
            score="sigmoid",
            choice=choice,
            renormalise=Renormalise(eps=0.0) if config("norm_topk_prob", renormalises) else None,
        ),
        shared=shared_expert(config("shared_expert_intermediate_size", shared), act),
    )


def write_kolibri(architecture: Architecture) -> dict[str, Any]:
    attentions: list[Attention] = sublayers(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    assert experts.shared is not None, "the experts have no shared one beside them"
    turning = [attention.rotary for attention in attentions if attention.rotary is not None]
    return (
        common(architecture)
        | heads(attentions[0])
        | {
            **write_rope(turning[0] if turning else None),
            "layer_types": layer_types(architecture),
            "sliding_window": window_size(architecture) or 513,
            "hidden_act": written_activation(architecture),
            "num_experts": experts.experts,
            "num_experts_per_tok": experts.chosen,
            "moe_intermediate_size": experts.width,
            "shared_expert_intermediate_size": experts.shared.feedforward.width,
            "norm_topk_prob": experts.router.renormalise is not None,
        }
    )


def write_flint(architecture: Architecture) -> dict[str, Any]:
    return write_kolibri(architecture) | {
        "attention_bias": bool(first(architecture, "attention").bias),
        "intermediate_size": dense_width(architecture, 6144),
        "mlp_only_layers": [i for i, sparse in enumerate(expert_layers(architecture)) if not sparse],
    }


FAMILIES = (
    Family(
        "kolibri1",
        read_kolibri,
        write_kolibri,
        lambda architecture: decoder_names(ATTENTION, QK_NORMS, ROUTED, _KOLIBRI),
        "Kolibri1ForCausalLM",
    ),
    Family(
        "flint",
        read_flint,
        write_flint,
        lambda architecture: decoder_names(ATTENTION, QK_NORMS, FEEDFORWARD, ROUTED, NORMS, EXPERTS_NORM, _FLINT),
        "FlintForCausalLM",
    ),
)
