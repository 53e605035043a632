"""A composite read whole: its text model with the images among its tokens, and both of their weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from anyformer.describe import did_you_mean
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, rules, under
from anyformer.huggingface.vision.encoders import LAYER, names
from anyformer.huggingface.vision.models import VISION, Vision
from anyformer.model import Architecture
from anyformer.parts import ImageTower
from anyformer.plan import Plan

_TOWER, _PROJECTOR = "vision_tower.", "multi_modal_projector."
_STORED: Mapping[str, str] = {
    r"(?:model\.)?vision_tower\.(?:vision_model\.)?(.*)": rf"{_TOWER}\1",
    r"(?:model\.)?multi_modal_projector\.(.*)": rf"{_PROJECTOR}\1",
}
"""Pattern of names in files, published or saved by transformers 5 -> the name here."""


def with_images(config: Config, composite: Family) -> Family:
    """The family of a composite's text model, with its images; `HuggingFaceError` where they are not read."""
    if composite.text_name is None:
        raise HuggingFaceError(f"{config.where}: {config.model_type} has no tower for images: read it without images")
    if config.model_type not in VISION:
        hint = did_you_mean(config.model_type, VISION)
        raise HuggingFaceError(
            f"{config.where}: the images of {config.model_type} are not read{hint}, only those of {', '.join(VISION)}: "
            f"read its text model alone, without images"
        )
    vision = VISION[config.model_type]
    tower, text_name = vision.read(config), composite.text_name
    needed = _needed(tower, vision)

    def read(config: Config) -> Architecture:
        return composite.read(config).but(images=vision.read(config))

    def names_of(architecture: Architecture) -> Names:
        text, own = composite.names_of(architecture.but(images=None)), _names(tower, vision)
        return Names({**text.outside, **own.outside}, {**text.layers, **own.layers})

    def own_name(stored: str) -> str | None:
        name = text_name(stored)
        if name is not None:
            return name
        tower_name = _tower_name(stored)
        return tower_name if tower_name in needed else None

    return replace(composite, read=read, names=names_of, text_name=own_name, marks_images=vision.marks)


def _tower_name(stored: str) -> str:
    for pattern, own in _STORED.items():
        if re.fullmatch(pattern, stored):
            return re.sub(pattern, own, stored, count=1)
    return stored


def _names(tower: ImageTower, vision: Vision) -> Names:
    outside = {**under(_TOWER, names(tower.patches, tower.width)), **under(_PROJECTOR, vision.projector)}
    return Names(outside, {"images.stack": (f"{_TOWER}encoder.layers.{{i}}.", LAYER)})


def _needed(tower: ImageTower, vision: Vision) -> frozenset[str]:
    """The stored tensors that the tower computes with, and its layers with a dot behind their names.

    Layers behind the one that is read, and heads, are not among them.
    """
    shapes = {f"images.{name}": weight.shape for name, weight in tower.cost(1, 0, Plan()).weights.items()}
    layers = {f"{_TOWER}encoder.layers.{i}." for i in range(tower.stack.depth)}
    return frozenset(layers | {name for rule in rules(_names(tower, vision), shapes) for name in rule.stored})
