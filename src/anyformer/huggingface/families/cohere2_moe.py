"""Cohere 2 MoE: attention and experts in parallel after one norm, rotary positions in windows, shared experts averaged in."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING, layer_types, mlp_layer_types, norm_eps
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import ATTENTION, FEEDFORWARD, ROUTED, SHARED, SHARED_NORM, decoder_names
from anyformer.model import Architecture
from anyformer.parts import Attention, Experts, LayerNorm, RMSNorm, Router, TopK, parallel

_JOINS = {"average": "mean", "sum": "sum"}


def read(config: Config) -> Architecture:
    config.assume(sliding_window=4096)
    config.expect("rope_scaling", None, why="transformers looks at rope_parameters alone")
    dense, step = config("first_k_dense_replace", 0), config("sliding_window_pattern", 4, kind=SIZE)
    early = config("prefix_dense_sliding_window_pattern", 1, _early, kind=SIZE)
    kinds = words.windows(config, lambda i: SLIDING if ((i + 1) % early if i < dense else (i - dense + 1) % step) else FULL)
    norm, rotary = _norm(config), words.rotary(config, pairing="adjacent", rotate_in="fp32")
    plain, experts = words.attention(config, head_width=128), _experts(config)
    width = config("prefix_dense_intermediate_size", None, "feedforward.width")
    network = words.feedforward(config).but(width=experts.width if width is None else width)

    def heads(kind: str, network: str) -> Attention:
        rotates = kind == "local" or (network == "dense" and early == 1)
        return plain.but(rotary=rotary if rotates else None, mask=words.mask(config, kind))

    networks = words.mlp_types(config, dense)
    layers = words.expert_layers(config, norm, heads, experts, network, kinds, networks, wire=parallel)
    return words.decoder(config, layers, norm, tied=True, scale=float(config("logit_scale", 0.0625)))


def _early(target: Target) -> int:
    """The pattern: 1 if dense layers with full attention have rotary positions, else 2."""
    layers = zip(target.each("attention.rotary"), layer_types(target), mlp_layer_types(target), strict=False)
    return 2 if any(rotary is None and of == [FULL, "dense"] for rotary, *of in layers) else 1


def _norm(config: Config) -> words.Norm:
    """An RMS norm if its epsilon is given, else a LayerNorm."""
    plain = config("rms_norm_eps", None, lambda target: None if _is_layer_norm(target) else norm_eps(target))
    centred = config("layer_norm_eps", 1e-5, lambda target: norm_eps(target) if _is_layer_norm(target) else 1e-5)
    return LayerNorm(eps=centred, bias=False) if plain is None else RMSNorm(eps=plain)


def _is_layer_norm(target: Target) -> bool:
    """Whether the norms are LayerNorms, of the two the only one cast after its gain."""
    return bool(target("stack.final_norm.cast") == "after_gain")


def _experts(config: Config) -> Experts:
    key, joins = "shared_expert_combination_strategy", {ours: theirs for theirs, ours in _JOINS.items()}
    config.expect(key, *_JOINS)
    config.expect("expert_selection_fn", "softmax", "sigmoid")
    over = config("expert_selection_fn", "softmax", lambda t: "softmax" if t("experts.router.over") == "chosen" else "sigmoid")
    adds_up = words.renormalised(
        config, True, at=lambda t: t("experts.router.over") == "chosen" or bool(t("experts.router.renormalise"))
    )
    soft = Router(over="chosen", choice=TopK(by="logits"))
    router = soft if over == "softmax" else Router(score="sigmoid", choice=TopK(by="logits"), renormalise=adds_up)
    experts = words.experts(config, router, count=8, chosen=2, counted=("num_experts",), size="intermediate_size")
    join = _JOINS[config(key, "average", lambda target: joins[target("experts.shared.join")])]
    return words.shared_of(config, experts, 0, "num_shared_experts", join=join)


FAMILIES = (
    Family("cohere2_moe", read, decoder_names(ATTENTION, FEEDFORWARD, ROUTED, SHARED, SHARED_NORM), "Cohere2MoeForCausalLM"),
)
