"""Classification of sets and sequences of vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from anyformer.data import Data, RecordBatch, RecordTable, Vectors
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import Usual, usual_length
from anyformer.objectives.classes import ClassObjective
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.sequences import pooled
from anyformer.requirements.usual import BY_KIND


class VectorClassificationObjective(ClassObjective):
    """Cross-entropy of the class of a set or sequence of vectors (T, I): -log softmax(logits)[class].

    Points of a shape (Set Transformer, arXiv 1810.00825), pixels with their places (Perceiver, arXiv 2103.03206), readings of a
    sensor. They enter as they are; rows are padded to T.
    """

    reads: ClassVar[type[Data]] = Vectors
    kind: Literal["vector_classification"] = "vector_classification"

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not turn vectors into a logit per class."""
        BY_KIND["vector_classification"].check(architecture)

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        assert isinstance(data, Vectors), "checked before"
        reads = architecture.embedding.example(1, 1).shape[2]
        if data.features != reads:
            raise ValueError(
                f"data.features = {data.features}, and the embedding reads vectors of {reads} numbers: make them equal"
            )
        if data.longest is not None and length != data.longest:
            raise ValueError(f"length = {length}, and a record has {data.longest} vectors: set length = {data.longest}")

    @property
    def usual(self) -> Usual:
        return replace(super().usual, length=vectors_each)

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        features = np.asarray(table.columns["features"].numbers)
        return np.asarray(table.lengths("vectors") // features, dtype=np.int64)

    def examples(self, batch: RecordBatch, setting: Setting) -> Examples:
        """`tokens` (B, T, I) float32, 0 on padding; no padding where every record has T vectors."""
        vectors = [record["vectors"].reshape(-1, int(record["features"])) for (record,) in batch.records]
        tokens = np.zeros((len(vectors), setting.length, vectors[0].shape[1]), dtype=np.float32)
        for row, own in zip(tokens, vectors, strict=True):
            row[: len(own)] = own
        lengths = torch.tensor([len(own) for own in vectors])
        padding = torch.arange(setting.length) >= lengths[:, None]
        targets = torch.tensor([int(record["label"]) for (record,) in batch.records])
        counts = torch.ones(len(targets), dtype=torch.float64)
        rows = torch.from_numpy(batch.rows)
        return Examples(torch.from_numpy(tokens), targets, None, rows, padding=padding, counts=counts)

    def counted(self, examples: Examples) -> Tensor | None:
        return None

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return {"padding": examples.padding}

    def of_targets(self, outputs: Tensor, examples: Examples) -> Tensor:
        return pooled(outputs, examples)


def vectors_each(architecture: Architecture, data: Data) -> int:
    """The most vectors of a record, where they are known."""
    assert isinstance(data, Vectors), "checked before"
    return data.longest or usual_length(architecture, data)
