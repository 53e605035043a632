"""Crosscoder: activations at several paths as sums of the same few features."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from anyformer.objectives.sparse import SparseObjective


class CrosscoderObjective(SparseObjective):
    """Squared error of a model's activations at several paths, all made of the same few features of them all.

    They stand side by side in the vectors that the dictionary reads and writes, whose `blocks` is their number: then a
    feature's length is the sum of its lengths at all paths (Lindsey et al. 2024,
    transformer-circuits.pub/2024/crosscoders).
    """

    kind: Literal["crosscoder"] = "crosscoder"
    paths: Annotated[tuple[str, ...], Field(min_length=2)]
    """The paths, as in `["decoder.layer[1].output", "decoder.layer[2].output"]`, all of as many numbers."""

    @model_validator(mode="after")
    def _names_each_once(self) -> CrosscoderObjective:
        if len(set(self.paths)) < len(self.paths):
            raise ValueError(f"paths names a path twice: {list(self.paths)}")
        return self

    @property
    def read_at(self) -> tuple[str, ...]:
        return self.paths
