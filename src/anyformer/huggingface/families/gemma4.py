"""Gemma 4's text models: unscaled scores, normed values, wider heads on full layers, experts, inputs of each layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.places import FULL, SLIDING, encodes, window
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.vocabulary import SIZE
from anyformer.huggingface.words.names import ATTENTION, BEFORE, FEEDFORWARD, OUTSIDE, QK_NORM, joined
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    Branch,
    Experts,
    FeedForward,
    Gain,
    LayerInput,
    LayerInputs,
    QKNorm,
    Renormalise,
    RMSNorm,
    Router,
    Step,
    Window,
)

_WIDE: Mapping[str, Any] = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0}
"""The rotary positions of full layers where the key is absent."""
_OURS = {"head_dim": "head_width", "num_key_value_heads": "kv_heads"}


def read(config: Config) -> Architecture:
    config.assume(hidden_size=2304, intermediate_size=9216, num_hidden_layers=30, num_attention_heads=8, vocab_size=262_144)
    config.assume(hidden_size_per_layer_input=256, sliding_window=512)
    both_ways = config("use_bidirectional_attention", None, lambda target: "all" if encodes(target) else None) == "all"
    config.expect("use_bidirectional_attention", None, "vision", "all")
    config.expect("is_causal", not both_ways)
    size = config("sliding_window", None, lambda target: 2 * (window(target) - 2) if encodes(target) else window(target))
    kinds = [*words.windows(config, words.every(6))[:-1], "full"]  # the last layer has no window, whatever its type
    near = Window(size=size // 2 + 2, after=size // 2 + 1) if both_ways and size else None
    masks = {kind: near if kind == "local" else Bidirectional() for kind in kinds} if both_ways else {}
    rotary, wider, norm = _rotary(config), _wider(config, kinds), words.rms_norm(config, cast="after_gain")
    own = len(kinds) - config("num_kv_shared_layers", 0, lambda target: sum(map(bool, target.each("attention.keys_from"))))
    inputs, experts, layers = words.layer_inputs(config, norm), _experts(config, norm), []
    for layer, kind in enumerate(kinds):
        heads = _heads(config, kind, norm, reads=layer < own).but(
            mask=masks.get(kind) or words.mask(config, kind), rotary=rotary[kind], **wider.get(layer, {})
        )
        network = words.feedforward(config, "hidden_activation", "gelu_pytorch_tanh")
        double = config("use_double_wide_mlp", False, _doubles) and layer >= own
        network = network.but(width=2 * network.width) if double else network
        layers.append((kind if layer < own else f"{kind}_shared", _block(heads, network, experts, inputs, norm)))
    softcap = config("final_logit_softcapping", None)
    around = {"layer_inputs": inputs}
    made = words.decoder(config, layers, norm, tied=True, embedding_scale="sqrt_width", softcap=softcap, around=around)
    return made.but(decoder=None, encoder=made.decoder) if both_ways else made


def read_unified(config: Config) -> Architecture:
    """Gemma 4's layers without experts and without inputs of each layer, and other sizes where keys are absent."""
    config.assume(hidden_size=2304, intermediate_size=9216, num_hidden_layers=30, num_attention_heads=8)
    config.assume(vocab_size=262_144, hidden_size_per_layer_input=0, enable_moe_block=False, sliding_window=1024)
    config.expect_all(hidden_size_per_layer_input=0, enable_moe_block=False)
    return read(config)


def _doubles(target: Target) -> bool:
    widths = target.each("feedforward.width")
    return bool(widths) and widths[-1] != widths[0]


def _rotary(config: Config) -> dict[str, Any]:
    config.expect("rope_scaling", None)
    tables = words.tables_by_type(config, {FULL: _WIDE["rope_theta"], SLIDING: 10_000.0})
    if config("rope_parameters", None) is None:
        tables[FULL] = dict(_WIDE)
    return {"full": words.from_table(tables[FULL]), "local": words.from_table(tables[SLIDING])}


def _wider(config: Config, kinds: list[str]) -> dict[int, dict[str, Any]]:
    """Layer -> fields of its heads that differ from the usual: listed by layer, else the same for all full layers."""
    width, groups = config("global_head_dim", 512), config("num_global_key_value_heads", None)
    by_keys = config("attention_k_eq_v", False, lambda target: "keys" in target.each("attention.values"))
    together = {"head_dim": width} | ({"num_key_value_heads": groups} if groups and by_keys else {})
    usual = {layer: together for layer, kind in enumerate(kinds) if kind == "full"}
    absent = "per_layer_config" not in config
    named = config("per_layer_config", None, _written_wider)
    by_layer = (usual if absent else {}) if named is None else named  # null is no layer
    for layer, table in by_layer.items():
        if not isinstance(table, Mapping) or not str(layer).isdigit() or not all(SIZE.fits(value) for value in table.values()):
            raise config.refused(f"per_layer_config.{layer}", table, "sizes of a layer by number")
    unknown = sorted({key for table in by_layer.values() for key in table} - set(_OURS))
    if unknown:
        raise HuggingFaceError(f"{config.where}: per_layer_config may hold {' and '.join(_OURS)}, not {', '.join(unknown)}")
    return {int(layer): {_OURS[key]: value for key, value in table.items()} for layer, table in by_layer.items()}


def _written_wider(target: Target) -> dict[str, dict[str, Any]]:
    return {
        str(layer): {theirs: heads.plain().get(ours) for theirs, ours in _OURS.items()}
        for layer, (heads, mask) in enumerate(_masked(target))
        if not mask.window
    }


def _masked(target: Target) -> list[tuple[Any, Any]]:
    """(heads, their mask) of every layer; `MismatchError` where what mixes positions has no mask."""
    return list(zip(target.each("attention.sublayer"), target.each("attention.mask"), strict=True))


def _usual(field: str) -> Callable[[Target], Any]:
    """A field of the heads of local layers, else of the first."""

    def value(target: Target) -> Any:
        heads = _masked(target)
        return next((local for local, mask in heads if mask.window), heads[0][0]).plain().get(field)

    return value


def _heads(config: Config, kind: str, norm: RMSNorm, *, reads: bool) -> Attention:
    """The attention of a layer; `reads`: with its own keys and values, else with those of the last such layer of its type."""
    config("head_dim", 256, _usual("head_width"))
    config("num_key_value_heads", 4, _usual("kv_heads"))
    by_keys = config("attention_k_eq_v", False) and kind == "full"
    left_out = {"value"} if reads and by_keys else set() if reads else {"key", "value"}
    bias = tuple(name for name in words.ALL if name not in left_out) if config("attention_bias", False) else ()
    own: dict[str, Any] = {"value_norm": norm.but(gain="none"), "values": "keys" if by_keys else "own"}
    fields = own if reads else {"keys_from": kind}
    return words.attention(config, kv_heads=4, head_width=256, scale=1.0, qk_norm=QKNorm(norm=norm), bias=bias, **fields)


def _experts(config: Config, norm: RMSNorm) -> Experts | None:
    if not config("enable_moe_block", None, lambda target: target.has("experts")):
        for name in ("num_experts", "top_k_experts", "moe_intermediate_size"):
            config(name, None)
        return None
    router = Router(norm=norm, multiplier="inverse_sqrt_width", renormalise=Renormalise(eps=0.0), expert_scale=True)
    act = words.activation(config, "hidden_activation", "gelu_pytorch_tanh")
    config("top_k_experts", None, "experts.chosen")
    return words.experts(config, router, chosen_key=("top_k_experts",), counted=("num_experts",), activation=act, norm=norm)


def _block(heads: Attention, network: FeedForward, experts: Experts | None, inputs: LayerInputs | None, norm: RMSNorm) -> Block:
    first = Branch(norm_before=norm, sublayer=heads, norm_after=norm)
    branches = {"feedforward": Branch(norm_before=norm, sublayer=network, norm_after=norm)}
    if experts is not None:
        branches["experts"] = Branch(sublayer=experts, norm_after=norm)
    scalar = Gain(per="branch", initial=1.0)
    both = Step(branches=Named(branches), norm_branches=None if experts is None else norm)
    steps = [Step(branches=Named(attention=first)), both]
    if inputs is not None:
        own = LayerInput(width=inputs.width, activation=network.activation)
        steps.append(Step(branches=Named(layer_input=Branch(sublayer=own, norm_after=norm))))
    return Block(steps=(*steps[:-1], steps[-1].but(gain=scalar)))


def names(architecture: Architecture) -> Names:
    stack = "decoder" if architecture.encoder is None else "encoder"
    inner = _EXPERTS if Target(architecture).has("experts") else _DENSE
    layers = joined(ATTENTION, QK_NORM, FEEDFORWARD, BEFORE, words.LAYER_INPUT, _SCALAR, inner)
    outside = {**OUTSIDE, **words.LAYER_INPUTS_OUTSIDE, "encoder.final_norm": "model.norm"}
    return Names(outside, {stack: ("model.layers.{i}.", layers)})


_SCALAR: Table = {
    "attention.norm_after": "post_attention_layernorm",
    "step_1_gain": "layer_scalar",
    "step_2_gain": "layer_scalar",
}
_DENSE: Table = {"feedforward.norm_after": "post_feedforward_layernorm"}
_EXPERTS: Table = {
    "feedforward.norm_after": "post_feedforward_layernorm_1",
    "experts.norm": "pre_feedforward_layernorm_2",
    "experts.norm_after": "post_feedforward_layernorm_2",
    "step_1_norm_branches": "post_feedforward_layernorm",
    "experts.router": "router.proj",
    "experts.router.norm.weight": "router.scale",
    "experts.router.expert_scale": "router.per_expert_scale",
    ("experts.gate", "experts.up"): To("experts.gate_up_proj", Rows(1)),
    "experts.down": "experts.down_proj",
}
FAMILIES = (
    Family(
        "gemma4_text",
        read,
        names,
        "Gemma4ForCausalLM",
        inert=("cache_implementation",),
        # Unused weights in published files of layers that read another's keys and values.
        ignored=(r".*self_attn\.[kv]_(proj|norm)\..*",),
    ),
    Family("gemma4_unified_text", read_unified, names, "Gemma4UnifiedForCausalLM"),
)
