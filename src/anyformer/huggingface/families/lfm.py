"""LFM2, dense and with experts: gated short convolutions, attention in some layers (arXiv 2511.23404)."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.target import Target, nowhere
from anyformer.huggingface.words.names import OUTSIDE, convolution, decoder_names, one_by_one, projections
from anyformer.model import Architecture
from anyformer.parts import (
    Experts,
    FeedForward,
    GatedConvolution,
    QKNorm,
    Renormalise,
    ScoreCorrectionBias,
    ShortConvolution,
    TopK,
    pre_norm,
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


def read_dense(config: Config) -> Architecture:
    config.assume(vocab_size=65_536, hidden_size=2560, num_hidden_layers=32)
    config.put(block_auto_adjust_ff_dim=False)
    depth, attends = config("num_hidden_layers"), config("full_attn_idxs", None)
    attends = range(depth) if attends is None else attends
    mixers = _mixers(config, lambda i: FULL if i in attends else "conv")
    return _decoder(config, mixers, ["dense"] * depth, {"dense": FeedForward(width=_width(config))})


def _width(config: Config) -> int:
    """The width of the network: as given, or two thirds of it, multiplied and rounded up."""
    width: int = config("block_ff_dim", None) or config("intermediate_size", 12288)
    stretch, step = config("block_ffn_dim_multiplier", 1.0), config("block_multiple_of", 256)
    if not config("block_auto_adjust_ff_dim", True):
        return width
    width = int(2 * width / 3)
    return width if stretch is None else -(-int(stretch * width) // step) * step


def read_moe(config: Config) -> Architecture:
    config.assume(vocab_size=65_536, hidden_size=2048, num_hidden_layers=32)
    networks = {"dense": FeedForward(width=config("intermediate_size", 7168)), "experts": _experts(config)}
    return _decoder(config, _mixers(config, lambda i: FULL), words.dense_first(config, "num_dense_layers", 2), networks)


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
    kernel = config("conv_L_cache", 3, f"{_CONVOLUTION}.convolution.kernel")
    biased = config("conv_bias", False, f"{_CONVOLUTION}.convolution.bias")
    bias: Any = (*_SIDES, "output") if biased else ()
    parts: dict[str, Any] = networks | {
        "convolution": GatedConvolution(convolution=ShortConvolution(kernel=kernel, bias=biased), bias=bias),
        "full": words.attention(config, heads=32, kv_heads=8, bias=(), dropout=0.0, qk_norm=QKNorm(norm=norm), rotary=rotary),
    }
    layers = words.layered(lambda mixer, mlp: pre_norm(norm, parts[mixer], parts[mlp]), mixers, mlps)
    return words.decoder(config, layers, norm, tied=config("tie_embedding", True, nowhere))


def names(architecture: Architecture) -> Names:
    """Names of the weights; the final norm is stored as `embedding_norm`."""
    kernel = Target(architecture).get(f"{_CONVOLUTION}.convolution.kernel", 0)
    own = {f"{_CONVOLUTION}.convolution.weight": To("conv.conv.weight", convolution(kernel))}
    return decoder_names(_TABLE, own, outside={**OUTSIDE, "decoder.final_norm": "model.embedding_norm"})


_INERT = (
    "block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale", "block_use_xavier_init", "conv_dim",
    "conv_dim_out", "conv_use_xavier_init", "num_heads",
)  # fmt: skip
"""Keys of older files: initialisation, and repetitions of other keys."""
FAMILIES = (
    Family("lfm2", read_dense, names, "Lfm2ForCausalLM", inert=_INERT),
    Family("lfm2_moe", read_moe, names, "Lfm2MoeForCausalLM", inert=_INERT),
)
