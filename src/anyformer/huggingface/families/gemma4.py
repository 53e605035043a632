"""Gemma 4's text models without per-layer embeddings: unscaled scores, normed values, wider heads on full layers, experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.describe import Named, get
from anyformer.huggingface.config import Config, HuggingFaceError
from anyformer.huggingface.families import decoder
from anyformer.huggingface.families.decoder import BUFFERS, attention, each, feedforward, kind, masked
from anyformer.huggingface.families.gemma import BEFORE, TANH
from anyformer.huggingface.families.llama import ATTENTION, FEEDFORWARD
from anyformer.huggingface.families.qwen import QK_NORM
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.spelling import FULL, SLIDING, activation, read_rotary
from anyformer.huggingface.vocabulary import SIZE
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    Branch,
    Experts,
    FeedForward,
    Gain,
    Renormalise,
    RMSNorm,
    Router,
    Step,
    Window,
)
from anyformer.parts.attention.heads import PROJECTIONS
from anyformer.parts.masks.mask import Mask

WIDE: Mapping[str, Any] = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0}
"""The rotary positions of full layers where a configuration has none."""


def read(config: Config) -> Architecture:
    config.assume(num_key_value_heads=4, head_dim=256, hidden_activation=TANH, sliding_window=512, tie_word_embeddings=True,
                  hidden_size_per_layer_input=256)  # fmt: skip
    config.expect("hidden_size_per_layer_input", 0, why="per-layer embeddings that read the input are not described")
    norm = RMSNorm(eps=config("rms_norm_eps", 1e-6), cast="after_gain")
    both_ways = config("use_bidirectional_attention", None) == "all"
    config.expect("use_bidirectional_attention", None, "vision", "all")
    config.expect("is_causal", not both_ways)
    windows, depth = _windows(config), config("num_hidden_layers")
    rotary, wider, shared = _rotary(config), _wider(config, windows), depth - config("num_kv_shared_layers", 0)
    layers = []
    for layer, window in enumerate(windows):
        reads = layer < shared
        heads = _heads(config, window, norm, reads=reads).but(
            mask=_both_ways(window) if both_ways else masked(window),
            rotary=rotary[SLIDING if window else FULL],
            **wider.get(layer, {}),
        )
        name = kind(window) if reads else f"{kind(window)}_shared"
        layers.append((name, _block(heads, _network(config, reads=reads), _experts(config, norm), norm)))
    softcap = config("final_logit_softcapping", None)
    made = decoder.model(config, layers, norm, embedding_scale=config("hidden_size") ** 0.5, softcap=softcap)
    return made.but(decoder=None, encoder=made.decoder) if both_ways else made


def _windows(config: Config) -> list[int | None]:
    """The window of every layer; the last has none, whatever its type."""
    return [*decoder.windows(config, decoder.every(6, config("num_hidden_layers")))[:-1], None]


def _both_ways(window: int | None) -> Mask:
    """`sliding_window` // 2 + 1 to either side, or everything."""
    return Window(size=window // 2 + 2, after=window // 2 + 1) if window else Bidirectional()


def _rotary(config: Config) -> dict[str, Any]:
    config.expect("rope_scaling", None)
    tables = decoder.rope_by_type(config, {FULL: WIDE["rope_theta"], SLIDING: 10_000.0})
    if config("rope_parameters", None) is None:
        tables[FULL] = dict(WIDE)
    return {name: read_rotary(table) for name, table in tables.items()}


def _wider(config: Config, windows: list[int | None]) -> dict[int, dict[str, Any]]:
    """Layer -> the heads that it has in place of the usual ones: named layer by layer, else for all full layers together."""
    width, groups = config("global_head_dim", 512), config("num_global_key_value_heads", None)
    together = {"head_dim": width} | ({"num_key_value_heads": groups} if groups and config("attention_k_eq_v", False) else {})
    named = config("per_layer_config", None)
    found = {layer: together for layer, window in enumerate(windows) if window is None} if named is None else named
    for layer, table in found.items():
        if not isinstance(table, Mapping) or not str(layer).isdigit() or not all(SIZE.fits(value) for value in table.values()):
            raise config.refused(f"per_layer_config.{layer}", table, "sizes of a layer by number")
    strange = sorted({key for table in found.values() for key in table} - set(_OURS))
    if strange:
        raise HuggingFaceError(f"{config.where}: per_layer_config may hold {' and '.join(_OURS)}, not {', '.join(strange)}")
    return {int(layer): {_OURS[key]: value for key, value in table.items()} for layer, table in found.items()}


_OURS = {"head_dim": "head_width", "num_key_value_heads": "kv_heads"}


def _heads(config: Config, window: int | None, norm: RMSNorm, *, reads: bool) -> Attention:
    """`reads`: keys and values are the layer's own, else those of the last such layer of its type."""
    by_keys = config("attention_k_eq_v", False) and window is None
    left_out = {"value"} if reads and by_keys else set() if reads else {"key", "value"}
    biased = [name for name in PROJECTIONS if name not in left_out]
    own: dict[str, Any] = {"value_norm": norm.but(gain="none"), "values": "keys" if by_keys else "own"}
    return attention(
        config,
        scale=1.0,
        qk_norm=norm,
        bias=tuple(biased) if config("attention_bias", False) else (),
        **(own if reads else {"keys_from": kind(window)}),
    )


def _network(config: Config, *, reads: bool) -> FeedForward:
    network = feedforward(config, "hidden_activation")
    return network.but(width=2 * network.width) if config("use_double_wide_mlp", False) and not reads else network


def _experts(config: Config, norm: RMSNorm) -> Experts | None:
    there, count, chosen, width = (
        config(name, None) for name in ("enable_moe_block", "num_experts", "top_k_experts", "moe_intermediate_size")
    )
    if not there:
        return None
    router = Router(norm=norm, multiplier=config("hidden_size") ** -0.5, renormalise=Renormalise(eps=0.0), expert_scale=True)
    act = activation(config("hidden_activation"))
    return Experts(experts=count, chosen=chosen, width=width, activation=act, norm=norm, router=router)


def _block(heads: Attention, network: FeedForward, experts: Experts | None, norm: RMSNorm) -> Block:
    first = Branch(norm_before=norm, sublayer=heads, norm_after=norm)
    branches = {"feedforward": Branch(norm_before=norm, sublayer=network, norm_after=norm)}
    if experts is not None:
        branches["experts"] = Branch(sublayer=experts, norm_after=norm)
    scalar = Gain(per="branch", initial=1.0)
    both = Step(branches=Named(branches), norm_branches=None if experts is None else norm, gain=scalar)
    return Block(steps=(Step(branches=Named(attention=first)), both))


def write(architecture: Architecture) -> dict[str, Any]:
    heads: list[Attention] = each(architecture, "attention.sublayer")
    widths, windows = each(architecture, "feedforward.width"), [part.mask.reach for part in heads]
    both_ways = architecture.encoder is not None
    written = decoder.write_windows(architecture, 512)
    if both_ways:
        written["sliding_window"] = 2 * (written["sliding_window"] - 2)
    local = next((part for part, window in zip(heads, windows, strict=True) if window), heads[0])
    return {
        **decoder.write(architecture, "hidden_activation"),
        **written,
        **decoder.write_rope_by_type(architecture),
        "num_key_value_heads": local.kv_heads,
        "head_dim": local.head_width,
        "per_layer_config": {
            str(layer): {"head_dim": part.head_width, "num_key_value_heads": part.kv_heads}
            for layer, part in enumerate(heads)
            if windows[layer] is None
        },
        "attention_bias": decoder.biased(architecture),
        "attention_k_eq_v": any(part.values == "keys" for part in heads),
        "num_kv_shared_layers": sum(part.keys_from is not None for part in heads),
        "use_double_wide_mlp": widths[-1] != widths[0],
        "hidden_size_per_layer_input": 0,
        "final_logit_softcapping": get(architecture, "head.softcap"),
        "use_bidirectional_attention": "all" if both_ways else None,
        **_write_experts(architecture),
    }


def _write_experts(architecture: Architecture) -> dict[str, Any]:
    if not _sparse(architecture):
        return {"enable_moe_block": False}
    experts: Experts = each(architecture, "experts.sublayer")[0]
    return {
        "enable_moe_block": True,
        "num_experts": experts.experts,
        "top_k_experts": experts.chosen,
        "moe_intermediate_size": experts.width,
    }


def _sparse(architecture: Architecture) -> bool:
    stack = architecture.output_stack
    return "experts" in stack.variants[stack.layers[0]].branches


def names(architecture: Architecture) -> Names:
    stack = "decoder" if architecture.encoder is None else "encoder"
    outside: Table = {"embedding": "model.embed_tokens", f"{stack}.final_norm": "model.norm", "head": "lm_head"}
    tables = (ATTENTION, QK_NORM, FEEDFORWARD, BEFORE, _SCALAR, _EXPERTS if _sparse(architecture) else _DENSE)
    layers: Table = {key: to for table in tables for key, to in table.items()}
    return Names(outside, {stack: ("model.layers.{i}.", layers)})


_SCALAR: Table = {"attention.norm_after": "post_attention_layernorm", "step_1_gain": "layer_scalar"}
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
SHARED = (r".*self_attn\.[kv]_(proj|norm)\..*",)
"""Left in published files where a layer reads another's keys and values."""

FAMILIES = (
    Family(
        "gemma4_text",
        read,
        write,
        names,
        "Gemma4ForCausalLM",
        inert=("cache_implementation", "vocab_size_per_layer_input"),
        ignored=(*BUFFERS, *SHARED),
    ),
)
