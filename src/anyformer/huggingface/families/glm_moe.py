"""GLM 4.5 (arXiv 2508.06471), Solar Open, dots.llm1 (2506.05767), K-EXAONE (2601.01739): DeepSeek-V3's experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import REQUIRED, Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.vocabulary import NAME, SIZE
from anyformer.huggingface.words.multi_token import as_layers, later_tokens
from anyformer.huggingface.words.names import (
    ATTENTION,
    CORRECTION,
    FEEDFORWARD,
    NORMS,
    QK_NORM,
    ROUTED,
    SHARED,
    decoder_names,
)
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, Experts, QKNorm, RMSNorm, Router, pre_norm


def read_glm4(config: Config) -> Architecture:
    norm, rotary = words.rms_norm(config, 1e-5), words.rotary(config, fraction=0.5)
    qk_norm = QKNorm(norm=norm) if config("use_qk_norm", False) else None
    heads = words.attention(config, kv_heads=8, bias=words.biases(config, names=words.QKV), qk_norm=qk_norm, rotary=rotary)
    experts = _experts(config, words.v3_router(config), count=128, shared=1)
    networks = words.dense_first(config, "first_k_dense_replace", 1)
    return _layered(config, norm, experts, lambda _: heads, networks, later=pre_norm(norm, heads, experts))


def read_solar(config: Config) -> Architecture:
    config.expect("use_qk_norm", False)
    norm, rotary = words.rms_norm(config, 1e-5), words.rotary(config, fraction=1.0, theta=1e6)
    if rotary.fraction != 1:
        raise HuggingFaceError(f"{config.where}: partial_rotary_factor is {rotary.fraction}; solar_open rotates whole heads")
    bias = words.biases(config, names=words.QKV)
    heads = words.attention(config, kv_heads=8, head_width=128, bias=bias, rotary=rotary)
    experts = _experts(config, words.v3_router(config), count=128, shared=1, width=1280)
    networks = words.dense_first(config, "first_k_dense_replace", 0)
    if "dense" in networks:
        raise HuggingFaceError(f"{config.where}: first_k_dense_replace: solar_open has experts in all layers")
    return _layered(config, norm, experts, lambda _: heads, networks)


def read_dots1(config: Config) -> Architecture:
    config.assume(sliding_window=4096)
    norm = words.rms_norm(config)
    heads = words.attention(config, kv_heads=32, qk_norm=QKNorm(norm=norm), rotary=words.rotary(config))
    experts = _experts(config, words.v3_router(config, renormalises=False))
    size, most = config("sliding_window", None), config("max_window_layers", 62)
    kinds = words.windows(config, lambda i: SLIDING if size is not None and i >= most else FULL)
    networks = words.dense_first(config, "first_k_dense_replace", 0)
    return _layered(config, norm, experts, lambda kind, _: heads.but(mask=words.mask(config, kind)), kinds, networks)


def read_exaone(config: Config) -> Architecture:
    config.assume(sliding_window=4096)
    norm, rotary = words.rms_norm(config, 1e-5), words.rotary(config)
    router, counted = words.v3_router(config, scale=2.5), ("num_experts", "num_shared_experts")
    experts = _experts(config, router, count=64, shared=1, width=1024, counted=counted)
    full = words.attention(config, kv_heads=32, bias=(), qk_norm=QKNorm(norm=norm))
    step = config("sliding_window_pattern", 4, kind=SIZE | NAME)
    if not isinstance(step, int) and config("layer_types", None) is None:
        raise HuggingFaceError(f"{config.where}: sliding_window_pattern is {step!r}, so layer_types must name the layers")
    kinds, networks = words.windows(config, words.every(step)), words.mlp_types(config, config("first_k_dense_replace", 1))

    def heads(kind: str, _: str) -> Attention:
        return full.but(rotary=rotary, mask=words.mask(config, kind)) if kind == "local" else full

    return _layered(config, norm, experts, heads, kinds, networks, dense=16384)


def _experts(
    config: Config,
    router: Router,
    *,
    shared: int = REQUIRED,
    counted: tuple[str, str] = ("n_routed_experts", "n_shared_experts"),
    width: int = 1408,
    **absent: Any,
) -> Experts:
    """The experts, with a shared one of `shared` times their width."""
    # Keys of published files that transformers does not read.
    config.expect("scoring_func", "sigmoid", "noaux_tc")
    config.expect_all(topk_method="noaux_tc", moe_layer_freq=1)
    routed = words.experts(config, router, counted=counted[:1], chosen=8, width=width, **absent)
    return words.shared_of(config, routed, shared, counted[1])


def _layered(
    config: Config,
    norm: RMSNorm,
    experts: Experts,
    heads: Callable[..., Attention],
    *axes: Sequence[str],
    dense: int = 10944,
    later: Block | None = None,
) -> Architecture:
    """A decoder of `expert_layers`; `dense`: the width of dense layers where the key is absent; `later`: the layer that
    predicts later tokens."""
    network = words.feedforward(config, width=dense)
    layers = words.expert_layers(config, norm, heads, experts, network, *axes)
    mtp = None if later is None else later_tokens(config, norm, later, layers[-1][1])
    return words.decoder(config, layers, norm, mtp=mtp)


_TABLES = (ATTENTION, ROUTED, CORRECTION, SHARED, FEEDFORWARD, NORMS)
_EXAONE = dict.fromkeys(CORRECTION, "mlp.e_score_correction_bias")
FAMILIES = (
    Family(
        "glm4_moe",
        read_glm4,
        partial(as_layers, decoder_names(*_TABLES, QK_NORM)),
        "Glm4MoeForCausalLM",
        inert=("num_mtp_layers",),
        ignored=(r"model\.layers\.(46|92)\..*",),
    ),
    Family("solar_open", read_solar, decoder_names(*_TABLES), "SolarOpenForCausalLM"),
    Family("dots1", read_dots1, decoder_names(*_TABLES, QK_NORM), "Dots1ForCausalLM"),
    Family(
        "exaone_moe",
        read_exaone,
        decoder_names(*_TABLES, QK_NORM, _EXAONE),
        "ExaoneMoeForCausalLM",
        inert=("num_nextn_predict_layers",),
        ignored=(r"mtp\..*",),
    ),
)
