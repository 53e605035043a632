"""Examples that a model makes itself while it learns: what it answers to the prompts of the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from anyformer.model.transformer import Transformer
from anyformer.objectives.examples import Examples

Sums = Mapping[str, Tensor]
"""Figures by name, 0-d float64 each, that add up over batches and processes."""


class OwnSamples(Protocol):
    """What samples answers of the model in training, and what they are worth.

    The model is in evaluation mode then and in every update: no dropout, so that sampling and training compute the same.
    """

    @property
    def held(self) -> int:
        """Bytes of the weights of models that grade."""

    def learnt(
        self, model: Transformer, prompts: Examples, partners: Mapping[str, Transformer], size: int
    ) -> tuple[Examples, Sums]:
        """The examples of an update and figures of its answers; partners read `size` samples at a time.

        A pure function of the weights, the seed and the numbers of the samples.
        """

    def asked(self, model: Transformer, prompts: Examples) -> Examples:
        """The examples of an evaluation: the likeliest answers."""

    def figures(self, sums: Sums, largest: Sums) -> dict[str, float]:
        """Figures of an update for people, from the sums and the largest numbers that samples and losses told."""

    def remark(self, figures: Mapping[str, float]) -> str | None:
        """What somebody should know of the first update, by its figures."""
