"""Regression: real numbers of an image."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from anyformer.data import Corpus, Data, MeasuredImages, RecordBatch
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.examples import Examples
from anyformer.objectives.numbers import Moments, NumberObjective, columns_moments
from anyformer.objectives.objective import Setting
from anyformer.objectives.on_images import ImageObjective, stacked
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.embedding.head_module import at_last
from anyformer.requirements.usual import BY_KIND


class ImageRegressionObjective(ImageObjective, NumberObjective):
    """Squared error of standardised numbers of an image: mean_k (y'_k - (y_k - m_k) / s_k)^2, y' the model's outputs.

    An age, the middle of a thing, the sides of its box. m and s are the mean and the deviation of every number over all
    training records of the prepared data, which keeps them; the loss of saying m is then about 1.
    """

    reads: ClassVar[type[Data]] = MeasuredImages
    kind: Literal["image_regression"] = "image_regression"

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not turn one image into numbers."""
        BY_KIND["image_regression"].check(architecture)

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        assert isinstance(data, MeasuredImages), "checked before"
        if architecture.outputs != len(data.values):
            raise ValueError(
                f"the data has {len(data.values)} numbers per image ({', '.join(data.values)}), and the head gives "
                f"{architecture.outputs}: set architecture.head.outputs = {len(data.values)}"
            )

    def examples(self, batch: RecordBatch, setting: Setting, moments: Moments = (0.0, 1.0)) -> Examples:
        """`targets` (B, N) float32: standardised by `moments`, their means and deviations; `facts` (B, N): the deviations."""
        mean, deviation = moments
        values_BN = torch.from_numpy(np.stack([record["values"] for (record,) in batch.records])).double()
        facts = torch.ones_like(values_BN) * deviation
        counts = torch.ones(len(values_BN), dtype=torch.float64)
        rows, targets_BN = torch.from_numpy(batch.rows), ((values_BN - mean) / deviation).float()
        return Examples(self.standardised(stacked(batch)), targets_BN, None, rows, counts=counts, facts=facts)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        numbers = torch.zeros(shape.batch, architecture.outputs)
        return replace(super().made_up(architecture, data, shape), targets=numbers, facts=numbers.double())

    def predicted(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        said: Tensor = model(examples.tokens, noise=noise, auxiliary=auxiliary)
        return (said if said.dim() == 2 else at_last(said, None)).float()

    def moments(self, corpus: Corpus) -> Moments:
        return columns_moments(corpus.train, "values")
