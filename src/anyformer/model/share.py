"""What one of several processes has of a model that they compute together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from anyformer.model.architecture import Architecture

if TYPE_CHECKING:
    from anyformer.model.transformer import Transformer

Portion = Callable[[str, Tensor], Tensor]
"""What this process holds of a whole weight, by its name; its own memory, so that the whole can go."""
Divide = Callable[["Transformer"], Portion]
"""Divides a whole model on the meta device among processes: from then on it is that of this process, and takes portions."""


@dataclass(frozen=True)
class Share:
    """A process's share: `architecture` has, of each divided sublayer, what this process computes.

    `processes`: those that compute the model together; so many of them, `here`, take memory from one device.
    """

    architecture: Architecture
    processes: int
    here: int


def keep_whole(model: Transformer) -> Portion:
    """`Divide` of the only process: every weight is whole."""
    return lambda name, weight: weight
