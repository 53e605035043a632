"""Composites whose text reads images by cross-attention: an encoder of images is the source of the text model's decoder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Shaped, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.bert_line import ATTENTION
from anyformer.huggingface.words.sides import joined, joined_names, parted
from anyformer.huggingface.words.vit_line import side_of
from anyformer.model import Architecture
from anyformer.parts import Attention, Bidirectional, LearnedPosition, Patches, Projection, pre_norm
from anyformer.parts.images.encoder_module import Images


@dataclass(frozen=True)
class Source:
    """The images of a composite, as the source of its text."""

    read: Callable[[Config], Architecture]
    """The encoder of images, from the composite's configuration."""
    names: Callable[[Architecture], Names]
    """Of the encoder's weights, ours to those here."""
    crossed: Table
    """Of cross-attention in a layer of text."""
    stored: Mapping[str, str]
    """Pattern of the names of both in files -> the name here."""


def blip(config: Config) -> Architecture:
    """Li et al. 2022 (arXiv 2201.12086), section 3.1: a Vision Transformer with a class token."""
    table = {"model_type": "blip_vision_model", **config("vision_config")}
    inner = Config(table, f"{config.where}: vision_config")
    inner.expect("model_type", "blip_vision_model")
    inner.assume(hidden_size=768, intermediate_size=3072, num_hidden_layers=12)
    inner.expect("attention_dropout", 0.0, 0, why="the class never drops attention weights of images")
    norm, patch = words.layer_norm(inner, 1e-5), side_of(inner, "patch_size", 16)
    attention = Attention(heads=inner("num_attention_heads", 12), mask=Bidirectional(), project=Projection(bias=words.ALL))
    length = (side_of(inner, "image_size", 384) // patch) ** 2 + 1
    block = pre_norm(norm, attention, words.plain(inner, "gelu"))
    made = Architecture(
        width=inner("hidden_size"),
        embedding=Patches(size=patch, class_tokens=1),
        encoder=words.stacked(words.repeated(inner, block), position=LearnedPosition(length=length), final_norm=norm),
    )
    inner.finish(("initializer_range", "num_channels", "projection_dim"))
    return made


_BLIP: Table = {
    tuple(f"attention.{side}" for side in words.QKV): To("self_attn.qkv", Rows()),
    "attention.output": "self_attn.projection",
    "attention.norm_before": "layer_norm1",
    "feedforward.norm_before": "layer_norm2",
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
}


def blip_names(encoder: Architecture) -> Names:
    width, target = encoder.width, Target(encoder)
    patch, channels = target("embedding.size"), target("embedding.channels")
    outside: Table = {
        "embedding.class_tokens": To("vision_model.embeddings.class_embedding", Shaped((1, 1, width))),
        "embedding.projection.weight": To(
            "vision_model.embeddings.patch_embedding.weight", Shaped((width, channels, patch, patch))
        ),
        "embedding.projection.bias": "vision_model.embeddings.patch_embedding.bias",
        "encoder.position.weight": To("vision_model.embeddings.position_embedding", Shaped((1, -1, width))),
        "encoder.final_norm": "vision_model.post_layernorm",
    }
    return Names(outside, {"encoder": ("vision_model.encoder.layers.{i}.", _BLIP)})


_BERT: Table = {
    **{f"cross_{ours}": f"cross{theirs}" for ours, theirs in ATTENTION.items()},
    "step_1_norm_after": "crossattention.output.LayerNorm",
}
SOURCES: Mapping[str, Source] = {
    "blip": Source(blip, blip_names, _BERT, {r"text_decoder\.(.*)": r"\1", r"(vision_model\..*)": r"\1"}),
}
"""Model type of a composite -> its images."""


def with_source(config: Config, source: Source, composite: Family) -> Family:
    """The family of a composite's text model, whose layers read its images."""

    def read(config: Config) -> Architecture:
        encoder, text = source.read(config), composite.read(config)
        return joined(encoder, text, encoder.width)

    def names_of(architecture: Architecture) -> Names:
        encoder, text = parted(architecture)
        return joined_names(architecture, source.names(encoder), composite.names_of(text), source.crossed)

    def own_name(stored: str) -> str | None:
        if any(re.fullmatch(pattern, stored) for pattern in composite.ignored):
            return stored
        for pattern, own in source.stored.items():
            if re.fullmatch(pattern, stored):
                return re.sub(pattern, own, stored, count=1)
        return None

    return replace(composite, read=read, names=names_of, text_name=own_name, shows=_shown)


def _shown(tokens: Tensor, images: Images) -> dict[str, Tensor]:
    assert isinstance(images, Tensor), "they have one size"
    return {"pixel_values": images, "input_ids": tokens}
