"""DeepSeek V2 and V3, and GLM 4.7 Flash: latent attention, dense layers first, then fine experts beside shared ones."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.experts import (
    CORRECTION,
    EXPERTS_NORM,
    ROUTED,
    SHARED,
    dense_first,
    first,
    first_dense,
    mlp_words,
    shared_count,
    shared_expert,
    written_activation,
)
from anyformer.huggingface.families.latent import (
    interleaved,
    latent_names,
    read_latent,
    read_rope,
    write_latent,
    write_stretched,
)
from anyformer.huggingface.families.mixers import feedforward_width, in_order, words
from anyformer.huggingface.families.old_llama import FEEDFORWARD, NORMS, common, decoder_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names
from anyformer.huggingface.spelling import activation
from anyformer.model import Architecture
from anyformer.parts import (
    Correction,
    Experts,
    FeedForward,
    Groups,
    LatentAttention,
    Renormalise,
    RMSNorm,
    Router,
    TopK,
    pre_norm,
)


def names(architecture: Architecture) -> Names:
    return decoder_names(latent_names(architecture), ROUTED, CORRECTION, SHARED, FEEDFORWARD, NORMS, EXPERTS_NORM)


def read_v3(config: Config) -> Architecture:
    config.assume(vocab_size=129_280, hidden_size=7168, num_hidden_layers=61, num_attention_heads=128, intermediate_size=18_432)
    attention = read_latent(config, q_rank=1536, **read_rope(config, interleave=True))
    experts = read_experts(config, corrected_router(config), experts=256, chosen=8, shared=1, width=2048)
    return _decoder(config, attention, experts, dense_first(config, "first_k_dense_replace", 3), eps=1e-6)


def read_glm(config: Config) -> Architecture:
    config.assume(
        vocab_size=154_880,
        hidden_size=2048,
        num_hidden_layers=47,
        num_attention_heads=20,
        intermediate_size=10_240,
        qk_nope_head_dim=192,
        v_head_dim=256,
    )
    attention = read_latent(config, q_rank=768, **read_rope(config, interleave=True))
    router = corrected_router(config, groups=1, keep=1, scale=1.8)
    experts = read_experts(config, router, experts=64, chosen=4, shared=1, width=1536)
    return _decoder(
        config, attention, experts, words(config, "mlp_layer_types", lambda i: "sparse" if i else "dense"), eps=1e-5
    )


def read_v2(config: Config) -> Architecture:
    config.assume(vocab_size=102_400, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, intermediate_size=11_008)
    attention = read_latent(config, q_rank=1536, **read_rope(config, rotate_in="fp32", pairing="adjacent"))
    config.expect("mlp_bias", False)
    config.expect("norm_topk_prob", False, None)
    config.expect("scoring_func", "softmax")
    method, count, keep = config("topk_method", "greedy"), config("n_group", None), config("topk_group", None)
    if method not in ("greedy", "group_limited_greedy"):
        raise HuggingFaceError(f"{config.where}: topk_method = {method!r} is not known for deepseek_v2")
    # transformers scores experts of other groups 0: one that is chosen nevertheless, since all else underflowed, weighs 0 too.
    groups = Groups(count=count, keep=keep) if method == "group_limited_greedy" else None
    router = Router(choice=TopK(groups=groups), scale=float(config("routed_scaling_factor", 1.0)))
    experts = read_experts(config, router, experts=64, chosen=6, shared=2, width=1407)
    return _decoder(config, attention, experts, dense_first(config, "first_k_dense_replace", 0), eps=1e-6)


def corrected_router(config: Config, *, groups: int = 8, keep: int = 4, scale: float = 2.5) -> Router:
    """V3's router in V3's words. The keywords are what absent keys mean."""
    config.expect("scoring_func", "sigmoid")
    config.expect("topk_method", "noaux_tc")
    return v3_router(
        config("n_group", groups),
        config("topk_group", keep),
        renormalises=config("norm_topk_prob", True),
        scale=config("routed_scaling_factor", scale),
    )


def v3_router(count: int, keep: int, *, renormalises: bool, scale: float) -> Router:
    """Sigmoids, a correction for the choice, groups unless all of them are kept."""
    groups = None if count == keep else Groups(count=count, keep=keep, score="top_2")
    return Router(
        score="sigmoid",
        choice=TopK(groups=groups, correction=Correction()),
        renormalise=Renormalise() if renormalises else None,
        scale=float(scale),
    )


def read_experts(config: Config, router: Router, *, experts: int, chosen: int, shared: int, width: int) -> Experts:
    """Experts in DeepSeek's words. The keywords are what absent keys mean."""
    config.expect("moe_layer_freq", 1)
    act, wide = activation(config("hidden_act", "silu")), config("moe_intermediate_size", width)
    return Experts(
        experts=config("n_routed_experts", config("num_local_experts", config("num_experts", experts))),
        chosen=config("num_experts_per_tok", chosen),
        width=wide,
        activation=act,
        router=router,
        shared=shared_expert(config("n_shared_experts", shared) * wide, act),
    )


def _decoder(config: Config, attention: LatentAttention, experts: Experts, mlps: list[str], *, eps: float) -> Architecture:
    """Layers that are dense or have experts."""
    norm = RMSNorm(eps=config("rms_norm_eps", eps))
    dense = FeedForward(width=config("intermediate_size"), activation=experts.activation)
    made = {"dense": pre_norm(norm, attention, dense), "experts": pre_norm(norm, attention, experts)}
    return in_order(config, [mlps], lambda mlp: made[mlp], norm)


def write_v3(architecture: Architecture) -> dict[str, Any]:
    attention = first(architecture, "latent_attention")
    return _written(architecture) | {
        **interleaved(attention),
        **write_corrected(first(architecture, "experts").router),
        "first_k_dense_replace": first_dense(architecture),
    }


def write_glm(architecture: Architecture) -> dict[str, Any]:
    written = write_v3(architecture)
    del written["first_k_dense_replace"]
    return written | {"mlp_layer_types": mlp_words(architecture)}


def write_v2(architecture: Architecture) -> dict[str, Any]:
    groups = first(architecture, "experts").router.choice.groups
    return _written(architecture) | {
        "topk_method": "group_limited_greedy" if groups else "greedy",
        "n_group": groups.count if groups else None,
        "topk_group": groups.keep if groups else None,
        "first_k_dense_replace": first_dense(architecture),
    }


def write_corrected(router: Router) -> dict[str, Any]:
    """The keys of V3's router, of which those that all versions have are in `_written`."""
    groups = router.choice.plain().get("groups", {"count": 1, "keep": 1})
    return {
        "n_group": groups["count"],
        "topk_group": groups["keep"],
        "norm_topk_prob": router.renormalise is not None,
    }


def _written(architecture: Architecture) -> dict[str, Any]:
    """What all versions write alike."""
    attention: LatentAttention = first(architecture, "latent_attention")
    experts: Experts = first(architecture, "experts")
    return {
        **common(architecture),
        **write_latent(attention),
        **write_stretched(attention),
        "hidden_act": written_activation(architecture),
        "intermediate_size": feedforward_width(architecture, experts.width),
        "moe_intermediate_size": experts.width,
        "n_routed_experts": experts.experts,
        "num_experts_per_tok": experts.chosen,
        "n_shared_experts": shared_count(experts),
        "routed_scaling_factor": experts.router.scale,
    }


INERT = ("aux_loss_alpha", "ep_size", "head_dim", "num_nextn_predict_layers", "seq_aux")
"""`head_dim` only says again how wide the rotated features are; the predictors of later tokens are no part of the model."""

FAMILIES = (
    Family(
        "deepseek_v3",
        read_v3,
        write_v3,
        names,
        "DeepseekV3ForCausalLM",
        inert=INERT,
        ignored=(r".*rotary_emb\.inv_freq", r"model\.layers\.61\..*"),
    ),
    Family(
        "deepseek_v2",
        read_v2,
        write_v2,
        names,
        "DeepseekV2ForCausalLM",
        inert=INERT,
        ignored=(r".*rotary_emb\.inv_freq",),
    ),
    Family(
        "glm4_moe_lite",
        read_glm,
        write_glm,
        names,
        "Glm4MoeLiteForCausalLM",
        inert=INERT,
        ignored=(r"model\.layers\.47\..*",),
    ),
)
