"""ERNIE 4.5 MoE: adjacent rotary pairs, biases everywhere or nowhere, softmax weights with a correction for the choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.families.experts import (
    EXPERTS_NORM,
    ROUTED,
    SHARED,
    decoder,
    dense_width,
    expert_layers,
    first,
    heads,
    label,
    shared_count,
    shared_expert,
    written_activation,
)
from anyformer.huggingface.families.old_llama import ATTENTION, FEEDFORWARD, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Shaped, Table, To
from anyformer.huggingface.spelling import activation, read_rotary, rope_parameters, write_rope
from anyformer.model import Architecture
from anyformer.parts import Attention, Correction, Experts, FeedForward, Head, Renormalise, RMSNorm, Router, TopK, pre_norm
from anyformer.parts.feedforward import PROJECTIONS as NETWORK
from anyformer.parts.heads import PROJECTIONS

_CORRECTION: Table = {"experts.router.correction": To("mlp.moe_statics.e_score_correction_bias", Shaped((1, -1)))}


def read(config: Config) -> Architecture:
    norm, biased = RMSNorm(eps=config("rms_norm_eps", 1e-5)), config("use_bias", False)
    attention = Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", 4),
        head_width=config("head_dim", None),
        bias=PROJECTIONS if biased else (),
        rotary=read_rotary(rope_parameters(config, theta=5e5), pairing="adjacent", rotate_in="fp32"),
    )
    feedforward = FeedForward(
        width=config("intermediate_size", 12288),
        activation=activation(config("hidden_act", "silu")),
        bias=NETWORK if biased else (),
    )
    width, shared = config("moe_intermediate_size", 1536), config("moe_num_shared_experts", 2)
    experts = Experts(
        experts=config("moe_num_experts", 64),
        chosen=config("moe_k", 6),
        width=width,
        activation=feedforward.activation,
        router=Router(
            choice=TopK(correction=Correction()), renormalise=Renormalise(eps=0.0, least=config("moe_norm_min", 1e-12))
        ),
        shared=shared_expert(shared * width, feedforward.activation, bias=feedforward.bias) if shared else None,
    )
    wide: Mapping[str, Experts | FeedForward] = {"experts": experts, "dense": feedforward}
    mlps = _mlps(config)
    head = Head(bias=biased)
    return decoder(config, label(mlps), [pre_norm(norm, attention, wide[mlp]) for mlp in mlps], norm, tied=True, head=head)


def _mlps(config: Config) -> list[str]:
    """What each layer holds after its attention."""
    depth, step = config("num_hidden_layers"), config("moe_layer_interval", 1)
    start, end = config("moe_layer_start_index", 1), config("moe_layer_end_index", -1)
    last = depth - 1 if end == -1 else end
    return ["experts" if (i + 1) % step == 0 and start <= i <= last else "dense" for i in range(depth)]


def write(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = first(architecture, "attention")
    experts: Experts = first(architecture, "experts")
    renormalise = experts.router.renormalise
    assert renormalise is not None, "the weights of the experts chosen are not renormalised"
    sparse = [i for i, there in enumerate(expert_layers(architecture)) if there]
    keys = heads(attention)
    del keys["attention_dropout"]  # it drops none
    return (
        common(architecture)
        | keys
        | {
            "use_bias": bool(attention.bias),
            **write_rope(attention.rotary),
            "intermediate_size": dense_width(architecture, 12288),
            "hidden_act": written_activation(architecture),
            "moe_num_experts": experts.experts,
            "moe_k": experts.chosen,
            "moe_intermediate_size": experts.width,
            "moe_num_shared_experts": shared_count(experts),
            "moe_norm_min": renormalise.least,
            "moe_layer_start_index": sparse[0],
            "moe_layer_end_index": sparse[-1],
            "moe_layer_interval": _interval(sparse),
        }
    )


def _interval(sparse: list[int]) -> int:
    """The step from one layer with experts to the next; where there is one, the step that reaches it."""
    return sparse[1] - sparse[0] if len(sparse) > 1 else sparse[0] + 1


FAMILIES = (
    Family(
        "ernie4_5_moe",
        read,
        write,
        lambda architecture: decoder_names(ATTENTION, FEEDFORWARD, ROUTED, _CORRECTION, SHARED, NORMS, EXPERTS_NORM),
        "Ernie4_5_MoeForCausalLM",
        inert=("attention_dropout", "moe_capacity", "moe_gate", "moe_use_aux_free", "num_nextn_predict_layers"),
        ignored=(r".*mtp.*",),
    ),
)
