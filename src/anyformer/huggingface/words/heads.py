"""Attention over heads: how many, how wide, their biases and dropout."""

from __future__ import annotations

from typing import Any, Literal

from anyformer.huggingface.config import REQUIRED, Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.places import biased
from anyformer.huggingface.target import Place, Target
from anyformer.parts import Attention

Projection = Literal["query", "key", "value", "output"]
QKV: tuple[Projection, ...] = ("query", "key", "value")
ALL: tuple[Projection, ...] = (*QKV, "output")


def attention(
    config: Config, *, heads: int = REQUIRED, kv_heads: int | None = None, head_width: int | None = None, **fields: Any
) -> Attention:
    """Attention by the usual keys. The first keywords are what absent keys mean; `fields`: the rest of the part.

    Biases are those of `attention_bias` where `fields` have none, and dropout that of `attention_dropout`.
    """
    given = {
        "heads": config("num_attention_heads", heads),
        "kv_heads": key_value_heads(config, kv_heads),
        "head_width": config("head_dim", head_width, implied_width if config.usual("head_dim", head_width) else None),
        "bias": fields["bias"] if "bias" in fields else biases(config),
        "dropout": fields["dropout"] if "dropout" in fields else config("attention_dropout", 0.0),
    }
    return Attention(**{**fields, **given})


def implied_width(target: Target) -> int:
    """E, also where it is only implied: null would be refused, or mean another, where the class has a width of its own."""
    heads: int = target("attention.heads")
    return target("attention.head_width") or target.architecture.width // heads


def head_width(config: Config, width: int, heads: int) -> int:
    """D / H, of a model type whose heads divide the stream."""
    if width % heads:
        raise HuggingFaceError(f"{config.where}: {heads} heads do not divide the width {width}")
    return width // heads


def key_value_heads(config: Config, default: int | None = None, at: Place | None = None) -> int | None:
    """`num_key_value_heads`: a number is written where null would mean another, the class's own."""
    usual = config.usual("num_key_value_heads", default)
    found: int | None = config("num_key_value_heads", default, at or ("attention.kv_heads" if usual is None else None))
    return found


def biases(
    config: Config, key: str = "attention_bias", default: bool = False, names: tuple[Projection, ...] = ALL
) -> tuple[Projection, ...]:
    """The projections that add a bias where a flag says that any does."""
    return names if config(key, default, biased("attention")) else ()
