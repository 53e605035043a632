"""Gemma 3n's text models: alternating updates of several streams, low-rank residuals, sparse gates, inputs of each layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import INTEGERS, SIZE
from anyformer.huggingface.words.names import AFTER, ATTENTION, BEFORE, FEEDFORWARD, OUTSIDE, QK_NORM, joined
from anyformer.model import Architecture
from anyformer.parts import (
    Affine,
    AlternatingUpdates,
    Attention,
    Block,
    Branch,
    FeedForward,
    LayerInput,
    LowRankResidual,
    QKNorm,
    RMSNorm,
    StatisticalTopK,
    Step,
)

_ROOT = 2**-0.5
"""The factor of the sum of two residuals, x and the one of low rank."""


def read(config: Config) -> Architecture:
    config.assume(hidden_size=2048, num_hidden_layers=35, num_attention_heads=8, vocab_size=262_400, sliding_window=512)
    config.expect("altup_active_idx", 0)
    config.expect("altup_correct_scale", True)
    kinds, rotary, norm = words.windows(config, words.every(5)), _rotary(config), words.rms_norm(config, cast="after_gain")
    own = len(kinds) - config("num_kv_shared_layers", 15, lambda target: sum(map(bool, target.each("attention.keys_from"))))
    if set(kinds[own:]) - set(kinds[: max(own, 0)]):
        raise HuggingFaceError(f"{config.where}: no layer before the last num_kv_shared_layers has keys for every type of them")
    inputs = words.layer_inputs(config, norm, beyond=0)
    if inputs is None:
        raise config.refused("hidden_size_per_layer_input", 0, "a whole number above 0")
    networks = _networks(config, len(kinds))
    named = _names(kinds, networks, own)
    latest = {kinds[layer]: named[layer] for layer in range(own)}
    layers = []
    for layer, (kind, network) in enumerate(zip(kinds, networks, strict=True)):
        heads = _heads(config, norm, reads=None if layer < own else latest[kind])
        heads = heads.but(mask=words.mask(config, kind), rotary=rotary[kind])
        layers.append((named[layer], _block(config, heads, network, inputs.width, norm)))
    streams = AlternatingUpdates(count=config("altup_num_inputs", 4, "stack.streams.count"), norm=norm)
    softcap = config("final_logit_softcapping", 30.0)
    around = {"layer_inputs": inputs, "streams": streams}
    return words.decoder(config, layers, norm, tied=True, embedding_scale="sqrt_width", softcap=softcap, around=around)


def _rotary(config: Config) -> dict[str, Any]:
    thetas = {FULL: config("rope_theta", 1_000_000.0), SLIDING: config("rope_local_base_freq", 10_000.0)}
    tables = words.tables_by_type(config, thetas)
    return {"full": words.from_table(tables[FULL]), "local": words.from_table(tables[SLIDING])}


def _heads(config: Config, norm: RMSNorm, *, reads: str | None) -> Attention:
    """The attention of a layer; `reads`: the variant whose latest layer leaves keys and values, or None if it has its own."""
    names = words.ALL if reads is None else ("query", "output")
    bias = names if config("attention_bias", False) else ()
    fields: dict[str, Any] = {"value_norm": norm.but(gain="none")} if reads is None else {"keys_from": reads}
    return words.attention(config, kv_heads=2, head_width=256, scale=1.0, qk_norm=QKNorm(norm=norm), bias=bias, **fields)


def _networks(config: Config, depth: int) -> list[FeedForward]:
    """The network of each layer: width and sparsity are one for all, or listed by layer."""
    width = config("intermediate_size", 16_384, _widths, kind=SIZE | INTEGERS)
    usual = [0.95] * 10 + [0.0] * (depth - 10) if depth > 10 else [0.0] * depth
    listed = config("activation_sparsity_pattern", None, _written_sparsities)
    sparsities = usual if listed is None else listed
    widths = [width] * depth if isinstance(width, int) else width
    for name, each in (("intermediate_size", widths), ("activation_sparsity_pattern", sparsities)):
        if len(each) != depth:
            raise HuggingFaceError(f"{config.where}: {name} has {len(each)} entries for {depth} layers")
    if not all(0 <= sparsity < 1 for sparsity in sparsities):
        raise config.refused("activation_sparsity_pattern", sparsities, "shares of features, from 0 to below 1")
    act = words.activation(config, "hidden_activation", "gelu_pytorch_tanh")
    return [
        FeedForward(width=width, activation=act, sparse=StatisticalTopK(sparsity=sparsity) if sparsity else None)
        for width, sparsity in zip(widths, sparsities, strict=True)
    ]


def _widths(target: Target) -> int | list[int]:
    widths = target.each("feedforward.width")
    return widths if len(set(widths)) > 1 else int(widths[0])


def _written_sparsities(target: Target) -> list[float]:
    return [sparse.sparsity if sparse else 0.0 for sparse in target.each("feedforward.sparse")]


def _names(kinds: Sequence[str], networks: Sequence[FeedForward], own: int) -> list[str]:
    """A name per layer, of which the first `own` have their own keys: `local`, `full_sparse`, `full_shared`; with a number
    where layers of the same kind have different networks."""
    plain = [
        "_".join([kind, *["sparse"] * (network.sparse is not None), *["shared"] * (layer >= own)])
        for layer, (kind, network) in enumerate(zip(kinds, networks, strict=True))
    ]
    found: dict[str, list[FeedForward]] = {}
    for name, network in dict.fromkeys(zip(plain, networks, strict=True)):
        found.setdefault(name, []).append(network)
    return [
        f"{name}_{found[name].index(network)}" if len(found[name]) > 1 else name
        for name, network in zip(plain, networks, strict=True)
    ]


def _block(config: Config, heads: Attention, network: FeedForward, narrow: int, norm: RMSNorm) -> Block:
    laurel = LowRankResidual(rank=config("laurel_rank", 64, "laurel.rank"), norm=norm)
    first = {
        "attention": Branch(sublayer=heads, norm_after=norm, multiplier=_ROOT),
        "laurel": Branch(sublayer=laurel, multiplier=_ROOT),
    }
    last = Branch(sublayer=LayerInput(width=narrow, activation=network.activation), norm_after=norm)
    return Block(
        steps=(
            Step(norm_before=norm, branches=Named(first), residual_scale=_ROOT),
            Step(branches=Named(feedforward=Branch(norm_before=norm, sublayer=network, norm_after=norm))),
            Step(norm_before=Affine(bias=False), branches=Named(layer_input=last), residual="inactive"),
        )
    )


_LAYER: Table = {
    "step_0_norm_before": "input_layernorm",
    "step_2_norm_before.weight": "altup.correct_output_scale",
    "laurel.down": "laurel.linear_left",
    "laurel.up": "laurel.linear_right",
    "laurel.norm": "laurel.post_laurel_norm",
    "streams.norm": "altup.router_norm",
    "streams.router": "altup.modality_router",
    "streams.prediction": "altup.prediction_coefs",
    "streams.correction": "altup.correction_coefs",
}


def names(architecture: Architecture) -> Names:
    streams = architecture.output_stack.streams
    count = 0 if streams is None else streams.count - 1
    ends = {"enter": "altup_projections", "leave": "altup_unembed_projections"}
    matrices = {f"decoder.streams.{ours}.{n}": f"model.{theirs}.{n}" for ours, theirs in ends.items() for n in range(count)}
    layers = joined(ATTENTION, QK_NORM, FEEDFORWARD, BEFORE, AFTER, words.LAYER_INPUT, _LAYER)
    return Names({**OUTSIDE, **words.LAYER_INPUTS_OUTSIDE, **matrices}, {"decoder": ("model.layers.{i}.", layers)})


FAMILIES = (
    Family(
        "gemma3n_text",
        read,
        names,
        "Gemma3nForCausalLM",
        # transformers has no use for the first three; the last bounds coefficients in training, which do not come near 120.
        inert=("query_pre_attn_scalar", "altup_lr_multiplier", "cache_implementation", "altup_coef_clip"),
        # Unused weights in published files of layers that read another's keys and values.
        ignored=(r".*self_attn\.[kv]_(proj|norm)\..*",),
    ),
)
