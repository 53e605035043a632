"""ViT's line: encoders of square images cut into patches, and names of their weights."""

from __future__ import annotations

import math
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import JoinedTables, Shaped, Stacked, Table, Then, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.heads import ALL, QKV
from anyformer.huggingface.words.layers import repeated
from anyformer.huggingface.words.models import initialisation, stacked
from anyformer.huggingface.words.norms import Norm
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    GappedPosition,
    Head,
    LearnedPosition,
    Patches,
    Projection,
    Softmax,
)

PATCHES = "embeddings.patch_embeddings.projection"
ATTENTION: Table = {
    **{f"attention.{side}": f"attention.attention.{side}" for side in QKV},
    "attention.output": "attention.output.dense",
}
NETWORK: Table = {
    "attention.norm_before": "layernorm_before",
    "feedforward.norm_before": "layernorm_after",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
}


def image_attention(config: Config) -> Attention:
    """Attention of all patches to all, with a bias of the output, and of the other projections if the configuration says so."""
    bias = ALL if config("qkv_bias", True, lambda target: "query" in target("attention.bias")) else ("output",)
    heads, rate = config("num_attention_heads", 12), config("attention_probs_dropout_prob", 0.0)
    return Attention(heads=heads, mask=Bidirectional(), project=Projection(bias=bias), weigh=Softmax(dropout=rate))


def image_encoder(
    config: Config, block: Block, norm: Norm, *, patch: int, class_tokens: int, head: Head | None, placed: int | None = None
) -> Architecture:
    """An encoder of square images with a learned vector per position.

    `patch`: the default side of a patch in pixels; `placed`: the class tokens that have a position, all by default.
    """
    config.assume(num_hidden_layers=12, hidden_size=768, hidden_dropout_prob=0.0, patch_size=patch)
    patch = side_of(config, "patch_size", patch)
    length = (side_of(config, "image_size", 224) // patch) ** 2 + class_tokens
    gap = class_tokens - (class_tokens if placed is None else placed)
    position = GappedPosition(length=length, start=placed or 0, gap=gap) if gap else LearnedPosition(length=length)
    around: dict[str, Any] = {"position": position, "dropout": config("hidden_dropout_prob", 0.0), "final_norm": norm}
    return Architecture(
        width=config("hidden_size"),
        embedding=Patches(size=patch, channels=config("num_channels", 3, "embedding.channels"), class_tokens=class_tokens),
        encoder=stacked(repeated(config, block), **around),
        head=head,
        initialisation=initialisation(config),
    )


def side_of(config: Config, name: str, default: int) -> int:
    """A size in pixels, given as one number or as two equal ones."""
    value = config(name, default, "embedding.size" if name == "patch_size" else _pixels)
    sides = value if isinstance(value, list) else [value, value]
    if len(sides) != 2 or sides[0] != sides[1]:
        raise HuggingFaceError(f"{config.where}: {name} = {value} is not supported for {config.model_type}, only a square")
    return int(sides[0])


def _pixels(target: Target) -> int:
    patches = target("stack.position.length") - target("embedding.class_tokens")
    return int(target("embedding.size") * math.isqrt(patches))


def image_names(architecture: Architecture, patches: str = PATCHES, final_norm: str = "layernorm") -> Table:
    """Stored names outside the layers; `patches`: of the projection."""
    width, target = architecture.width, Target(architecture)
    patch, channels = target("embedding.size"), target("embedding.channels")
    return {
        "embedding.class_tokens": _class_tokens(target("embedding.class_tokens"), width),
        "embedding.projection.weight": To(f"{patches}.weight", Shaped((width, channels, patch, patch))),
        "embedding.projection.bias": f"{patches}.bias",
        "encoder.position.weight": To("embeddings.position_embeddings", Shaped((1, -1, width))),
        "encoder.final_norm": final_norm,
    }


def _class_tokens(count: int, width: int) -> To:
    """The name of one class token, or those of a class token and a token of distillation."""
    if count == 2:
        return To("embeddings.{x}_token", Then(Stacked(), Shaped((2, 1, 1, width))), ("cls", "distillation"))
    return To("embeddings.cls_token", Shaped((1, 1, width)))


def registers(count: int, width: int) -> To:
    """The names of a class token and of `count` registers behind it."""
    tables = Then(Shaped((1, -1, width), (-1, width)), JoinedTables((1, count)))
    return To("embeddings.{x}", tables, ("cls_token", "register_tokens"))
