"""A composite read whole: its text model with the images or sounds among its tokens, and both of their weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from anyformer.describe import did_you_mean
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, rules
from anyformer.huggingface.sound.models import Hearing
from anyformer.huggingface.vision.models import VISION, Vision
from anyformer.huggingface.vision.sources import SOURCES
from anyformer.model import Architecture
from anyformer.parts import ImageEncoder, SoundEncoder
from anyformer.plan import Plan


class _Reader(Protocol):
    """What reads a tower and its weights."""

    @property
    def stored(self) -> Mapping[str, str]: ...

    @property
    def read(self) -> Callable[[Config], Any]: ...

    @property
    def names(self) -> Callable[[Any], Names]: ...


def vision_of(config: Config) -> Vision:
    """The images of a composite; `HuggingFaceError` where they are not read."""
    if config.model_type not in VISION:
        hint = did_you_mean(config.model_type, VISION)
        raise HuggingFaceError(
            f"{config.where}: the images of {config.model_type} are not read{hint}, only those of "
            f"{', '.join((*VISION, *SOURCES))}: read its text model alone, without images"
        )
    return VISION[config.model_type]


def with_images(config: Config, vision: Vision, composite: Family) -> Family:
    """The family of a composite's text model, with its images."""
    tower = vision.read(config)
    shows = partial(vision.arguments, tower)
    return replace(_with_tower(tower, vision, composite, "images"), shows=shows, seen=vision.seen)


def with_sound(config: Config, hearing: Hearing, composite: Family) -> Family:
    """The family of a composite's text model, with its sound."""
    return replace(_with_tower(hearing.read(config), hearing, composite, "audio"), hears=hearing.arguments)


def _with_tower(tower: ImageEncoder | SoundEncoder, reader: _Reader, composite: Family, field: str) -> Family:
    """The family with a tower in a field of the architecture, and both of their weights."""
    text_name, own_names = composite.text_name, reader.names(tower)
    assert text_name is not None, "a composite has one"
    needed = _needed(tower, own_names, field)

    def read(config: Config) -> Architecture:
        return composite.read(config).but(**{field: reader.read(config)})

    def names_of(architecture: Architecture) -> Names:
        text = composite.names_of(architecture.but(**{field: None}))
        return Names({**text.outside, **own_names.outside}, {**text.layers, **own_names.layers})

    def own_name(stored: str) -> str | None:
        name = text_name(stored)
        if name is not None:
            return name
        tower_name = _tower_name(stored, reader.stored)
        return tower_name if tower_name in needed else None

    return replace(composite, read=read, names=names_of, text_name=own_name)


def _tower_name(stored: str, patterns: Mapping[str, str]) -> str:
    for pattern, own in patterns.items():
        if re.fullmatch(pattern, stored):
            return re.sub(pattern, own, stored, count=1)
    return stored


def _needed(tower: ImageEncoder | SoundEncoder, names: Names, field: str) -> frozenset[str]:
    """The stored tensors that the tower computes with, and its layers with a dot behind their names.

    Layers behind the one that is read, and heads, are not among them.
    """
    shapes = {f"{field}.{name}": weight.shape for name, weight in tower.cost(1, 0, Plan()).weights.items()}
    layers = {prefix.replace("{i}", str(i)) for prefix, _ in names.layers.values() for i in range(tower.stack.depth)}
    return frozenset(layers | {name for rule in rules(names, shapes) for name in rule.stored})
