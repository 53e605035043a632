"""Transcoder: what a part gives, as a sum of few features of what it reads."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from anyformer.objectives.sparse import SparseObjective


class TranscoderObjective(SparseObjective):
    """Squared error of a model's activations at one path, made of few features of those at another, of as many numbers.

    Over a feed-forward network it is a sparse one in its place (Dunefsky et al. 2024, arXiv 2406.11944): the dictionary's
    `centred` is false there.
    """

    kind: Literal["transcoder"] = "transcoder"
    path: Annotated[str, Field(min_length=1)]
    """The path that is read, as in `decoder.layer[3].feedforward.input`."""
    target: Annotated[str, Field(min_length=1)]
    """The path that is learnt, as in `decoder.layer[3].feedforward.sublayer.output`."""

    @model_validator(mode="after")
    def _learns_another(self) -> TranscoderObjective:
        if self.path == self.target:
            raise ValueError(f"path and target are both {self.path!r}: kind = 'sae' learns what it reads")
        return self

    @property
    def read_at(self) -> tuple[str, ...]:
        return (self.path,)

    @property
    def written_at(self) -> tuple[str, ...]:
        return (self.target,)
