"""Sparse autoencoder: activations at a path as a sum of few features."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from anyformer.objectives.sparse import SparseObjective


class SAEObjective(SparseObjective):
    """Squared error of a model's activations at one path, made of few features of themselves: a sparse autoencoder.

    Cunningham et al. 2023 (arXiv 2309.08600); top-k: Gao et al. 2024 (arXiv 2406.04093); JumpReLU: Rajamanoharan et al. 2024
    (arXiv 2407.14435): the dictionary's `code` says which.
    """

    kind: Literal["sae"] = "sae"
    path: Annotated[str, Field(min_length=1)]
    """The path of the source, as in `decoder.layer[3].output`: any that `watchable` lists."""

    @property
    def read_at(self) -> tuple[str, ...]:
        return (self.path,)
