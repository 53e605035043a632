"""The experts that a model chooses: how many at which layers, and those of its calls, noted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from anyformer.model.transformer import Transformer
from anyformer.parts.call.choices import ChoiceKey, ChoiceLayout, Choices

Noted = dict[ChoiceKey, list[Tensor]]
"""(B, T, J) of each call, by layer."""


def choice_layout(model: Transformer) -> ChoiceLayout:
    """The choices of the stack that the head reads."""
    layout: ChoiceLayout = getattr(model, model.output).choosing
    return layout


@contextmanager
def choices_noted(model: Transformer, *, wanted: bool = True) -> Iterator[Noted]:
    """Note the experts that every call inside the block chooses, where they are `wanted`."""
    before, noted = model.noting, Noted()
    model.noting = Choices(noted=noted) if wanted else before
    try:
        yield noted
    finally:
        model.noting = before
