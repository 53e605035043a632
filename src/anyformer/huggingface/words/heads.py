"""Attention over heads: their number and width, biases and dropout."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface.config import REQUIRED, Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.places import biased
from anyformer.huggingface.target import Place, Target
from anyformer.parts import Attention
from anyformer.parts.attention.projection import Projected

QKV: tuple[Projected, ...] = ("query", "key", "value")
ALL: tuple[Projected, ...] = (*QKV, "output")


def attention(
    config: Config, *, heads: int = REQUIRED, kv_heads: int | None = None, head_width: int | None = None, **fields: Any
) -> Attention:
    """Attention by the usual keys; `heads`, `kv_heads`, `head_width`: defaults of absent keys; `fields`: the other
    fields, and parts and fields of its slots by name.

    `attention_bias` and `attention_dropout` are read unless `fields` have `bias` and `dropout`.
    """
    made = Attention(
        heads=config("num_attention_heads", heads),
        kv_heads=key_value_heads(config, kv_heads),
        head_width=config("head_dim", head_width, implied_width if config.usual("head_dim", head_width) else None),
    )
    bias = fields["bias"] if "bias" in fields else biases(config)
    dropout = fields["dropout"] if "dropout" in fields else config("attention_dropout", 0.0)
    return made.but(**{**fields, "bias": bias, "dropout": dropout})


def full_heads(config: Config, **fields: Any) -> Attention:
    """Attention whose heads have keys of their own and share out the width; its class reads no key that says otherwise."""
    made = attention(config, **fields)
    config.expect("num_key_value_heads", None, made.heads)
    config.expect("head_dim", None, config("hidden_size") // made.heads)
    return made


def implied_width(target: Target) -> int:
    """E, also where it is only implied: for classes whose default is another width, so that null would not mean D / H."""
    heads: int = target("attention.heads")
    return target("attention.head_width") or target.architecture.width // heads


def head_width(config: Config, width: int, heads: int) -> int:
    """D / H; refuses heads that do not divide the width."""
    if width % heads:
        raise HuggingFaceError(f"{config.where}: {heads} heads do not divide the width {width}")
    return width // heads


def key_value_heads(config: Config, default: int | None = None, at: Place | None = None) -> int | None:
    """K by `num_key_value_heads`, which is written even where K = H if the class's default is another number."""
    usual = config.usual("num_key_value_heads", default)
    kv_heads: int | None = config("num_key_value_heads", default, at or ("attention.kv_heads" if usual is None else None))
    return kv_heads


def biases(
    config: Config, key: str = "attention_bias", default: bool = False, names: tuple[Projected, ...] = ALL
) -> tuple[Projected, ...]:
    """`names`, the projections with a bias, if a flag is set, else none."""
    return names if config(key, default, biased("attention")) else ()
