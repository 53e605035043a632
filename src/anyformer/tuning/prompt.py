"""Prompt tuning: vectors that learn in front of every text, of a model that stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from anyformer.describe import Count
from anyformer.operations import Tally, Weight
from anyformer.tuning.adapter import Adapter

if TYPE_CHECKING:
    from torch import Tensor


VIRTUAL = "virtual_tokens"
"""The name of the vectors in the model, and of the field of the architecture that says how many there are."""


class Prompt(Adapter):
    """Virtual tokens: x = [p_1 ... p_P, embedding of the text], of which only p (P, width of the embeddings) learns.

    Outputs are those of the text alone. Lester et al. 2021, arXiv 2104.08691; the paper's p is `tokens`.
    """

    kind: Literal["prompt"] = "prompt"
    tokens: Count = 20
    """P, the number of virtual tokens; a text may be so many tokens shorter than the position table."""
    first: Literal["vocabulary", "random"] = "vocabulary"
    """The first values: embeddings of tokens drawn from the vocabulary, which the paper finds better, or values drawn as those
    of embeddings are."""

    @property
    def changes(self) -> dict[str, Any]:
        return {VIRTUAL: self.tokens}

    def added(self, tally: Tally) -> dict[str, Weight]:
        width = tally.weights["embedding.weight"].shape[1]
        return {VIRTUAL: Weight((self.tokens, width), "replicate", "embedding")}

    def merged(self, base: Mapping[str, Tensor], added: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The weights and the virtual tokens, which the changed architecture has."""
        return {**base, **added}
