"""What the dense decoders of this room spell alike: heads, feed-forward, windows by layer, and the model around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyformer.describe import Named, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.old_llama import common
from anyformer.huggingface.rules import Rows, Table, To
from anyformer.huggingface.spelling import (
    FULL,
    SLIDING,
    activation,
    initialisation,
    read_rope,
    read_rotary,
    rope_parameters,
    write_activation,
    write_rope,
)
from anyformer.model import Architecture
from anyformer.parts import Attention, Block, Branch, Causal, Embedding, FeedForward, Head, Rotary, Step, Window, stack
from anyformer.parts.feedforward import PROJECTIONS as MATRICES
from anyformer.parts.heads import PROJECTIONS
from anyformer.parts.mask import Mask
from anyformer.parts.norm import Norm

BUFFERS = (r".*rotary_emb\.inv_freq",)
"""Tensors in files of older versions that no model needs."""


def attention(config: Config, **fields: Any) -> Attention:
    """Heads, biases and dropout; `fields`: the rest, and a bias where the model type has no key for it."""
    spelled: dict[str, Any] = {
        "heads": config("num_attention_heads"),
        "kv_heads": config("num_key_value_heads", None),
        "head_width": config("head_dim", None),
        "dropout": config("attention_dropout", 0.0),
    }
    if "bias" not in fields:
        spelled["bias"] = PROJECTIONS if config("attention_bias", False) else ()
    return Attention(**spelled, **fields)


def feedforward(config: Config, key: str = "hidden_act", *, bias: bool = False) -> FeedForward:
    """The gated network; `bias`: on all three matrices."""
    name = activation(config(key, "silu"))
    return FeedForward(width=config("intermediate_size"), activation=name, bias=MATRICES if bias else ())


def block(
    attention: Attention,
    feedforward: FeedForward,
    *,
    before: Norm | None = None,
    after: Norm | None = None,
    multiplier: float = 1.0,
) -> Block:
    """x = x + multiplier * after(sublayer(before(x))), attention and then feed-forward."""
    branches = [
        (part.kind, Branch(norm_before=before, sublayer=part, norm_after=after, multiplier=multiplier))
        for part in (attention, feedforward)
    ]
    return Block(steps=tuple(Step(branches=Named({name: branch})) for name, branch in branches))


def windows(config: Config, default: Sequence[str] | None = None) -> list[int | None]:
    """The window of every layer, None where it sees all before it: from `layer_types`, else from `default`."""
    depth, size = config("num_hidden_layers"), config("sliding_window")
    types: Sequence[str] = config("layer_types", None) or default or ()
    if len(types) != depth or set(types) - {FULL, SLIDING} or (SLIDING in types and size is None):
        raise HuggingFaceError(
            f"{config.where}: layer_types should name {FULL} or {SLIDING} for each of {depth} layers, "
            f"the latter with a sliding_window, got {list(types)} and sliding_window = {size}"
        )
    return [size if kind == SLIDING else None for kind in types]


def every(period: int, depth: int) -> list[str]:
    """Sliding layers, and a full one at the end of each `period`."""
    return [SLIDING if (layer + 1) % period else FULL for layer in range(depth)]


def rope_by_type(config: Config, thetas: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """The table of rotary settings of sliding and of full layers; older files scale the full ones alone."""
    tables = dict(config("rope_parameters", None) or {})
    strange = sorted(set(tables) - set(thetas))
    if strange:
        raise HuggingFaceError(f"{config.where}: rope_parameters should hold {' and '.join(thetas)}, not {', '.join(strange)}")
    old = {FULL: config("rope_scaling", None) or {}}
    found = {}
    for layer_type, theta in thetas.items():
        alone = Config({"rope_parameters": {**(tables.get(layer_type) or {}), **old.get(layer_type, {})}}, config.where)
        alone.assume(max_position_embeddings=config("max_position_embeddings", None))
        found[layer_type] = rope_parameters(alone, theta=theta)
    return found


def write_rope_by_type(architecture: Architecture) -> dict[str, Any]:
    """A table of rotary settings for each type that has layers."""
    tables: dict[str, Any] = {}
    longest: dict[str, Any] = {}
    for mask, rotary in zip(*(each(architecture, f"attention.{field}") for field in ("mask", "rotary")), strict=True):
        written = write_rope(rotary)
        tables[SLIDING if mask.reach else FULL] = written.pop("rope_parameters")
        longest |= written
    return {**longest, "rope_parameters": tables}


def kind(window: int | None) -> str:
    """The name of a layer."""
    return "local" if window else "full"


def masked(window: int | None) -> Mask:
    """Causal, within the window if there is one."""
    return Window(size=window) if window else Causal()


def model(
    config: Config, layers: Sequence[tuple[str, Block]], norm: Norm, *, embedding_scale: float = 1.0, **head: Any
) -> Architecture:
    """A language model of its layers, each with the name of its variant; where all are the same, that is `layer`."""
    alike = len({layer for _, layer in layers}) == 1
    return Architecture(
        width=config("hidden_size"),
        embedding=Embedding(vocab=config("vocab_size"), scale=embedding_scale),
        decoder=stack([layer for _, layer in layers], names=None if alike else Named(dict(layers)), final_norm=norm),
        head=Head(tied=config("tie_word_embeddings", False), **head),
        initialisation=initialisation(config),
    )


def each(architecture: Architecture, field: str) -> list[Any]:
    """What stands at a path in every layer."""
    layers = architecture.output_stack
    found = {name: get(layers, f"{name}.{field}") for name in layers.variants}
    return [found[name] for name in layers.layers]


def write(architecture: Architecture, activation: str = "hidden_act") -> dict[str, Any]:
    """What all write alike, of the first layer; the rotary positions of the first layer that has some."""
    heads: Attention = each(architecture, "attention.sublayer")[0]
    network: FeedForward = each(architecture, "feedforward.sublayer")[0]
    placed = [rotary for rotary in each(architecture, "attention.rotary") if rotary is not None]
    return {
        **common(architecture),
        "num_attention_heads": heads.heads,
        "num_key_value_heads": heads.kv_heads,
        "attention_dropout": heads.dropout,
        **({} if heads.head_width is None else {"head_dim": heads.head_width}),
        **write_rope(placed[0] if placed else None),
        "intermediate_size": network.width,
        activation: write_activation(network.activation),
        # The classes' own ids are those of one vocabulary, and a padding id beyond the table is refused.
        "pad_token_id": None,
    }


def write_windows(architecture: Architecture, default: int | None = None) -> dict[str, Any]:
    """`layer_types` and `sliding_window`; `default`: the window that transformers wants even where no layer has one."""
    reach = [mask.reach for mask in each(architecture, "attention.mask")]
    return {
        "layer_types": [SLIDING if size else FULL for size in reach],
        "sliding_window": next((size for size in reach if size), default),
    }


def scale(architecture: Architecture) -> float:
    """The factor of the first layer's scores."""
    heads: Attention = each(architecture, "attention.sublayer")[0]
    return heads.scale_of(architecture.width)


def inverse(number: float) -> float:
    """1 / number, with the fewest digits that give back the number."""
    rounded = (float(f"{1 / number:.{digits}g}") for digits in range(1, 18))
    return next((each for each in rounded if each and 1 / each == number), 1 / number)


def biased(architecture: Architecture, branch: str = "attention") -> bool:
    """Whether the first layer's projections add biases."""
    return bool(each(architecture, f"{branch}.bias")[0])


def plain(config: Config, default: str, *, bias: bool = False) -> FeedForward:
    """The network without a gate; `default`: its activation where the configuration is silent; `bias`: on both matrices."""
    name = activation(config("hidden_act", default))
    return FeedForward(width=config("intermediate_size"), activation=name, gated=False, bias=("up", "down") if bias else ())


def repeated(config: Config, block: Block) -> list[tuple[str, Block]]:
    """Every layer alike."""
    return [("layer", block)] * config("num_hidden_layers")


def renamed(written: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """The same values under the names that a model type has for them."""
    return {names.get(key, key): value for key, value in written.items()}


FUSED_QKV: Table = {
    ("attention.query", "attention.key", "attention.value"): To("self_attn.qkv_proj", Rows()),
    "attention.output": "self_attn.o_proj",
}
FUSED_GATE: Table = {
    ("feedforward.gate", "feedforward.up"): To("mlp.gate_up_proj", Rows()),
    "feedforward.down": "mlp.down_proj",
}
UP_DOWN: Table = {"feedforward.up": "mlp.up_proj", "feedforward.down": "mlp.down_proj"}
QK_NORM: Table = {"attention.query_norm": "self_attn.q_norm", "attention.key_norm": "self_attn.k_norm"}


def needs(config: Config, *names: str) -> None:
    """Refuse null where the model type's class cannot compute with it."""
    for name in names:
        if config(name, None) is None:
            raise HuggingFaceError(f"{config.where}: {config.model_type} needs a number for {name}, got null")


def rope_or(config: Config, otherwise: Mapping[str, Any], *, theta: float) -> Rotary:
    """Rotary positions, and those of a table where the configuration has none; a theta outside a table then means nothing."""
    if config("rope_parameters", None) is None and config("rope_scaling", None) is None:
        config("rope_theta", None)
        return read_rotary(otherwise)
    return read_rope(config, theta=theta)
