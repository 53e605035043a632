"""Experts and their routers: number, top k, width, and shared experts."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import REQUIRED, Config
from anyformer.huggingface.target import Place
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.activations import activation
from anyformer.parts import Experts, FeedForward, Groups, Renormalise, Router, ScoreCorrectionBias, SharedExpert, TopK

EXACT = Renormalise(eps=0.0)
"""Weights of the top k experts that add up to 1, without an epsilon."""


def experts(
    config: Config,
    router: Router,
    *,
    count: int = REQUIRED,
    chosen: int = REQUIRED,
    width: int = REQUIRED,
    counted: tuple[str, ...] = ("num_experts", "num_local_experts"),
    chosen_key: tuple[str, ...] = ("num_experts_per_tok",),
    size: str = "moe_intermediate_size",
    **fields: Any,
) -> Experts:
    """Experts by the usual keys; `count`, `chosen`, `width`: defaults of absent keys; `size`: the key of their width.

    `counted`, `chosen_key`: spellings of the keys of the first two, of which the first is written; no spelling of
    `chosen_key`: k is `chosen`.
    """
    given = {
        "experts": config.either(*counted, default=count),
        "chosen": config.either(*chosen_key, default=chosen) if chosen_key else chosen,
        "width": config(size, width, "experts.width"),
        "router": router,
    }
    act = fields["activation"] if "activation" in fields else activation(config)
    return Experts(**{**fields, **given, "activation": act})


def shared_of(config: Config, of: Experts, default: int, *keys: str, **more: Any) -> Experts:
    """The experts with a shared one, a multiple of their width by `keys`; `default`: the multiple where they are absent."""
    times = config.either(*keys, default=default)
    return of.but(shared=shared_expert(times * of.width, of.activation, **more) if times else None)


def shared_of_width(
    config: Config, of: Experts, default: int, key: str = "shared_expert_intermediate_size", **more: Any
) -> Experts:
    """The experts with a shared one of the width that `key` gives; `default`: where it is absent."""
    width = config(key, default)
    return of.but(shared=shared_expert(width, of.activation, **more) if width else None)


def shared_expert(width: int, activation: str, *, gate: Any = None, join: Any = "sum", **network: Any) -> SharedExpert:
    """A shared expert, added to the others without a gate by default."""
    return SharedExpert(feedforward=FeedForward(width=width, activation=activation, **network), gate=gate, join=join)


def renormalised(
    config: Config, default: bool, key: str = "norm_topk_prob", rule: Renormalise = EXACT, at: Place | None = None
) -> Renormalise | None:
    """`rule` if a flag says that the weights of the top k experts add up to 1."""
    return rule if config(key, default, at) else None


def softmax_router(config: Config, *, renormalises: bool) -> Router:
    """A router by the softmax over all experts; `renormalises`: where the key is absent."""
    return Router(renormalise=renormalised(config, renormalises))


def sigmoid_router(
    config: Config, *, renormalise: Renormalise | None, scale: float = 1.0, key: str = "routed_scaling_factor", **more: Any
) -> Router:
    """A router by sigmoids, whose choice has a correction of load; `scale`: of the weights, where the key is absent."""
    factor = config(key, None, lambda target: target("experts.router.scale"))
    choice = TopK(correction=ScoreCorrectionBias())
    given = {"score": "sigmoid", "choice": choice, "renormalise": renormalise, **more}
    return Router(**given, scale=float(scale if factor is None else factor))


def v3_router(
    config: Config,
    *,
    groups: int | None = 1,
    keep: int | None = 1,
    renormalises: bool = True,
    scale: float = 1.0,
    moonshot: bool = False,
) -> Router:
    """DeepSeek-V3's router: sigmoids, a correction, groups unless all are kept. The keywords are defaults of absent keys.

    `groups`, `keep`: with None, null keys mean no groups. `moonshot`: whether Moonshot's spellings of the keys are read too.
    """
    counted = ("num_expert_group", "n_group") if moonshot else ("n_group",)
    normed = ("moe_renormalize", "norm_topk_prob") if moonshot else ("norm_topk_prob",)
    count, kept = config.either(*counted, default=groups), config("topk_group", keep)
    some = None if count == kept else Groups(count=count, keep=kept, score="top_2")
    return sigmoid_router(
        config,
        renormalise=Renormalise() if config.either(*normed, default=renormalises) else None,
        scale=scale,
        choice=TopK(groups=some, correction=ScoreCorrectionBias()),
    )


def moonshot_experts(config: Config, *, count: int, width: int, **router: Any) -> Experts:
    """DeepSeek-V3's experts by Moonshot's keys, or DeepSeek's; the keywords are defaults of absent keys."""
    keys: dict[str, Any] = {
        "counted": ("num_experts", "num_local_experts"),
        "chosen_key": ("num_experts_per_token", "num_experts_per_tok"),
    }
    of = experts(config, v3_router(config, moonshot=True, **router), count=count, chosen=8, width=width, **keys)
    return shared_of(config, of, 1, "num_shared_experts", "n_shared_experts")


def sparse_layers(config: Config, absent: tuple[int, ...] = ()) -> list[str]:
    """`experts` in every `decoder_sparse_step`-th layer but `mlp_only_layers`; `absent`: the latter where the key is."""
    step, dense = config("decoder_sparse_step", 1, kind=SIZE), config("mlp_only_layers", None)
    dense = absent if dense is None else dense
    return ["experts" if i not in dense and (i + 1) % step == 0 else "dense" for i in range(config("num_hidden_layers"))]
