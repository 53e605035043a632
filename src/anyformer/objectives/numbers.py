"""What objectives of real numbers share: squared errors of standardised targets."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod

import numpy as np
import torch
from torch import Tensor

from anyformer.data import Corpus, Data, RecordBatch, RecordTable
from anyformer.model.transformer import Transformer
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed, remade
from anyformer.objectives.objective import Partners, Setting, Totals
from anyformer.objectives.records import RecordObjective
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary

Moments = tuple[float | Tensor, float | Tensor]
"""Mean and deviation of every number."""


class NumberObjective(RecordObjective):
    """Squared error of N standardised numbers of a row: mean_k (y'_k - (y_k - m_k) / s_k)^2. The base of such objectives.

    m and s are the mean and the deviation of all training targets of the prepared data, which keeps them; the loss of saying m
    is then about 1. `targets` are (B, N), or (B,) of one number, and `facts` (B, N) the deviations.
    """

    def examples(self, batch: RecordBatch, setting: Setting, moments: Moments = (0.0, 1.0)) -> Examples:
        """`targets` float32: standardised by `moments`."""
        raise NotImplementedError

    def predicted(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        """What the model says, (B, N) in fp32."""
        raise NotImplementedError

    def moments(self, corpus: Corpus) -> Moments:
        """Mean and deviation of the training targets."""
        raise NotImplementedError

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> Feed:
        feed = super().feed(data, corpus, setting, batch, held_out=held_out)
        return remade(feed, partial(self.examples, setting=setting, moments=self.moments(corpus)))

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        said_BN = self.predicted(model, examples, noise, auxiliary)
        return (said_BN - examples.targets.view_as(said_BN)).square().mean(-1).sum()

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        return self.number_statistics(self.predicted(model, examples, None, auxiliary).double(), examples)

    def number_statistics(self, said_BN: Tensor, examples: Examples) -> dict[str, Tensor]:
        """The statistics of predictions (B, N); errors in the targets' own units."""
        real_BN = examples.targets.double().view_as(said_BN)
        scale = 1.0 if examples.facts is None else examples.facts.to(said_BN)
        error_BN = (said_BN - real_BN) * scale
        return {
            "loss": (said_BN - real_BN).square().mean(-1).sum(),
            "rows": torch.tensor(len(real_BN)),
            "error": error_BN.abs().sum(0), "squared_error": error_BN.square().sum(0),
            "units": (real_BN * scale).sum(0), "squared_units": (real_BN * scale).square().sum(0),
        }  # fmt: skip

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """Mean absolute error and root of the mean squared error in the targets' own units, and R2, the share of their variance
        that is explained: its mean over the numbers."""
        rows = totals["rows"]
        spread_N = totals["squared_units"] - totals["units"].square() / rows
        unexplained_N = torch.where(spread_N > 0, totals["squared_error"] / spread_N, torch.ones_like(spread_N))
        return {
            "mae": float((totals["error"] / rows).mean()),
            "rmse": float((totals["squared_error"] / rows).mean().sqrt()),
            "r2": float((1 - unexplained_N).mean()),
        }

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        """The mean squared error of the mean of the training targets."""
        squares = [
            each for examples in held_out.once(windows) for each in examples.targets.double().square().flatten().tolist()
        ]
        return ("the mean of the training targets", float(np.mean(squares))) if squares else None


def columns_moments(table: object, column: str) -> tuple[Tensor, Tensor]:
    """Mean and deviation (N,) of the numbers of a split's column; 1 for a deviation of 0."""
    assert isinstance(table, RecordTable), "records are prepared as a table"
    numbers = table.columns[column]
    count = prod(numbers.type.shape or ())
    values = np.asarray(numbers.numbers, dtype=np.float64).reshape(-1, count)
    if not len(values):
        return torch.zeros(count, dtype=torch.float64), torch.ones(count, dtype=torch.float64)
    deviation = torch.from_numpy(values.std(0))
    return torch.from_numpy(values.mean(0)), torch.where(deviation > 0, deviation, torch.ones_like(deviation))
