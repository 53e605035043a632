"""LFM2, dense and with experts, and LFM3: gated short convolutions, attention in some layers (arXiv 2511.23404)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.words.names import (
    ATTENTION,
    OUTSIDE,
    QK_NORM,
    convolution,
    decoder_names,
    one_by_one,
    projections,
)
from anyformer.model import Architecture
from anyformer.parts import (
    Experts,
    FeedForward,
    Gate,
    GatedConvolution,
    QKNorm,
    Renormalise,
    ScoreCorrectionBias,
    ShortConvolution,
    TopK,
    pre_norm,
    sandwich,
)

_CONVOLUTION = "gated_convolution"
_SIDES = ("gate_before", "gate_after", "value")
_TABLE: Table = {
    "attention.norm_before": "operator_norm",
    f"{_CONVOLUTION}.norm_before": "operator_norm",
    "feedforward.norm_before": "ffn_norm",
    "experts.norm_before": "ffn_norm",
    **projections("self_attn.*_proj", "self_attn.out_proj"),
    "attention.query_norm": "self_attn.q_layernorm",
    "attention.key_norm": "self_attn.k_layernorm",
    tuple(f"{_CONVOLUTION}.{side}" for side in _SIDES): To("conv.in_proj", Rows()),
    f"{_CONVOLUTION}.convolution.bias": "conv.conv.bias",
    f"{_CONVOLUTION}.output": "conv.out_proj",
    "feedforward.gate": "feed_forward.w1",
    "feedforward.up": "feed_forward.w3",
    "feedforward.down": "feed_forward.w2",
    "experts.router": "feed_forward.gate",
    "experts.router.correction": "feed_forward.expert_bias",
    **one_by_one("feed_forward.experts", "w1", "w3", "w2"),
}
_THIRD: Table = {
    **ATTENTION,
    **QK_NORM,
    "attention.gate.projection": "self_attn.gate_proj",
    "attention.norm_after": "post_operator_norm",
    f"{_CONVOLUTION}.norm_after": "post_operator_norm",
    "feedforward.norm_after": "post_ffn_norm",
}
"""What LFM3 calls otherwise, and has besides."""
_MIXERS = {"conv": "convolution", FULL: "full", SLIDING: "local"}
_WAVES: Mapping[str, Mapping[str, Any]] = {
    FULL: {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
    SLIDING: {"rope_type": "default", "rope_theta": 10_000.0},
}
"""LFM3's rotary positions by type of layer, where the key is absent."""


def read_dense(config: Config) -> Architecture:
    config.assume(vocab_size=65_536, hidden_size=2560, num_hidden_layers=32)
    config.put(block_auto_adjust_ff_dim=False, block_dim=_stream, conv_dim=_stream)  # vLLM reads the latter two
    depth, attends = config("num_hidden_layers"), config("full_attn_idxs", None)
    attends = range(depth) if attends is None else attends
    mixers = _mixers(config, lambda i: FULL if i in attends else "conv")
    return _decoder(config, mixers, ["dense"] * depth, {"dense": FeedForward(width=_width(config))})


def _stream(target: Target) -> int:
    return target.architecture.width


def _width(config: Config) -> int:
    """The width of the network: as given, or two thirds of it, multiplied and rounded up."""
    width: int = config("intermediate_size", 12288)
    width = config("block_ff_dim", None) or width  # the older key replaces the other
    stretch, step = config("block_ffn_dim_multiplier", 1.0), config("block_multiple_of", 256)
    if not config("block_auto_adjust_ff_dim", True):
        return width
    width = int(2 * width / 3)
    return width if stretch is None else -(-int(stretch * width) // step) * step


def read_moe(config: Config) -> Architecture:
    config.assume(vocab_size=65_536, hidden_size=2048, num_hidden_layers=32)
    config.put(conv_dim=_stream)
    networks = {"dense": FeedForward(width=config("intermediate_size", 7168)), "experts": _experts(config)}
    return _decoder(config, _mixers(config, lambda i: FULL), words.dense_first(config, "num_dense_layers", 2), networks)


def read_third(config: Config) -> Architecture:
    """Windows beside full attention, each with rotary positions of its own, gates of heads, and norms on both sides."""
    config.assume(vocab_size=128_000, hidden_size=2048, num_hidden_layers=24, sliding_window=256)
    norm, network = words.rms_norm(config, 1e-5, "norm_eps"), words.feedforward(config, width=7680).but(activation="silu")
    mixers = words.windows(config, _third, known=_MIXERS, at=_third_types)
    gate = Gate(per="head") if config("use_attention_gate", True, words.has_part("attention.gate")) else None
    heads = words.attention(config, heads=16, kv_heads=4, head_width=128, qk_norm=QKNorm(norm=norm), gate=gate)
    tables = words.tables_by_type(config, {kind: table["rope_theta"] for kind, table in _WAVES.items()})
    if config("rope_parameters", None) is None:
        tables = {kind: dict(table) for kind, table in _WAVES.items()}
    attends = {
        ours: heads.but(rotary=words.from_table(tables[theirs]), mask=words.mask(config, ours))
        for theirs, ours in _MIXERS.items()
        if theirs in tables
    }
    wire = (
        sandwich if config("use_sandwich_norm", True, lambda target: target("feedforward.norm_after") is not None) else pre_norm
    )
    parts: dict[str, Any] = {"convolution": _convolution(config, 7), **attends}
    return words.decoder(config, words.layered(lambda mixer: wire(norm, parts[mixer], network), mixers), norm, tied=True)


def _third(layer: int) -> str:
    """The type of a layer where the key is absent."""
    return FULL if layer % 4 == 2 else SLIDING if layer and layer % 4 == 0 else "conv"


def _third_types(target: Target) -> list[str]:
    masks = iter(target.each("attention.mask"))
    mixers = target.branches({_CONVOLUTION: "conv", "attention": FULL})
    return [mixer if mixer == "conv" else SLIDING if next(masks).window else FULL for mixer in mixers]


def _mixers(config: Config, absent: Any) -> list[str]:
    return words.mixers(config, absent, {_CONVOLUTION: "conv", "attention": FULL})


def _experts(config: Config) -> Experts:
    corrects = config("use_expert_bias", True, lambda target: target("experts.router.choice").correction_rule is not None)
    router = words.sigmoid_router(
        config,
        renormalise=words.renormalised(config, True, rule=Renormalise(eps=1e-6)),
        choice=TopK(correction=ScoreCorrectionBias() if corrects else None),
    )
    return words.experts(config, router, count=32, chosen=4, width=1792, counted=("num_experts",), activation="silu")


def _decoder(config: Config, mixers: list[str], mlps: list[str], networks: dict[str, Any]) -> Architecture:
    """The model, whose layers have a convolution or attention, then a network."""
    config.expect_all(block_use_swiglu=True, use_pos_enc=True)
    norm, rotary = words.rms_norm(config, 1e-5, "norm_eps"), words.rotary(config, theta=1e6)
    parts: dict[str, Any] = networks | {
        "convolution": _convolution(config, 3),
        "full": words.attention(config, heads=32, kv_heads=8, bias=(), dropout=0.0, qk_norm=QKNorm(norm=norm), rotary=rotary),
    }
    layers = words.layered(lambda mixer, mlp: pre_norm(norm, parts[mixer], parts[mlp]), mixers, mlps)
    return words.decoder(config, layers, norm, tied=config("tie_embedding", True, nowhere))


def _convolution(config: Config, usual: int) -> GatedConvolution:
    """The convolution; `usual`: its kernel where the key is absent."""
    kernel = config("conv_L_cache", usual, f"{_CONVOLUTION}.convolution.kernel")
    biased = config("conv_bias", False, f"{_CONVOLUTION}.convolution.bias")
    bias: Any = (*_SIDES, "output") if biased else ()
    return GatedConvolution(convolution=ShortConvolution(kernel=kernel, bias=biased), bias=bias)


def names(more: Table, architecture: Architecture) -> Names:
    """Names of the weights, of which `more` replace some; the final norm is stored as `embedding_norm`."""
    kernel = Target(architecture).get(f"{_CONVOLUTION}.convolution.kernel", 0)
    own = {f"{_CONVOLUTION}.convolution.weight": To("conv.conv.weight", convolution(kernel))}
    return decoder_names(_TABLE, own, more, outside={**OUTSIDE, "decoder.final_norm": "model.embedding_norm"})


_INERT = (
    "block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale", "block_use_xavier_init", "conv_dim",
    "conv_dim_out", "conv_use_xavier_init", "num_heads",
)  # fmt: skip
"""Keys of older files: initialisation, and repetitions of other keys."""
FAMILIES = (
    Family("lfm2", read_dense, partial(names, {}), "Lfm2ForCausalLM", inert=_INERT),
    Family("lfm2_moe", read_moe, partial(names, {}), "Lfm2MoeForCausalLM", inert=_INERT),
    Family(
        "lfm3",
        read_third,
        partial(names, _THIRD),
        "Lfm3ForCausalLM",
        older_names={r"\.self_attn\.g_proj\.": ".self_attn.gate_proj."},
    ),
)
