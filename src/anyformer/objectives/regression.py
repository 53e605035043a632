"""Regression: a real number of a text, or of a pair of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from anyformer.data import Corpus, Data, RecordBatch, RecordTable, Scored
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed, remade
from anyformer.objectives.objective import Partners, Setting, Totals
from anyformer.objectives.records import RecordObjective
from anyformer.objectives.sequences import FRAME, lengths_of, outputs, pooled, sequences, texts_of
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.usual import BY_KIND
from anyformer.text import Specials


class RegressionObjective(RecordObjective):
    """Squared error of a standardised number: (y' - (y - m) / s)^2, y' the model's output.

    m and s are the mean and the deviation of all training targets of the prepared data, which keeps them; the loss of saying m
    is then about 1. The output is that of a head with `outputs = 1`, pooled, or of the last token where the head does not pool.
    """

    reads: ClassVar[type[Data]] = Scored
    kind: Literal["regression"] = "regression"
    frame: bool = True
    """Put around the texts what the tokenizer puts there, as `[CLS]` before the first and `[SEP]` behind each."""

    def special(self, length: int) -> Specials:
        return FRAME if self.frame else Specials()

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not give one number."""
        BY_KIND["regression"].check(architecture)

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return lengths_of(table, setting.tokenizer, self.frame)

    def examples(self, batch: RecordBatch, setting: Setting, moments: tuple[float, float] = (0.0, 1.0)) -> Examples:
        """`targets` (B,) float32: standardised by `moments`, their mean and deviation; `facts` (B, 1): the deviation."""
        mean, deviation = moments
        given = sequences(texts_of(batch), setting.length, setting.tokenizer, self.frame)
        values = torch.tensor([float(record["value"]) for (record,) in batch.records], dtype=torch.float64)
        return Examples(
            given.tokens, ((values - mean) / deviation).float(), None, torch.from_numpy(batch.rows), padding=given.padding,
            types=given.types, counts=torch.ones(len(values), dtype=torch.float64),
            facts=torch.full((len(values), 1), deviation, dtype=torch.float64),
        )  # fmt: skip

    @property
    def traits(self) -> LossTraits:
        return LossTraits(each_row=frozenset({"each_said", "each_real"}))

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> Feed:
        return self._standardised(super().feed(data, corpus, setting, batch, held_out=held_out), corpus, setting)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        types = torch.zeros(shape.batch, shape.length, dtype=torch.int64)
        return replace(made, targets=torch.zeros(shape.batch), types=types)

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        return (self._predicted(model, examples, noise, auxiliary) - examples.targets).square().sum()

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        said, real = self._predicted(model, examples, None, auxiliary).double(), examples.targets.double()
        deviation = torch.ones(len(real)) if examples.facts is None else examples.facts[:, 0]
        return {
            "loss": (said - real).square().sum(),
            "rows": torch.tensor(len(real)),
            "said": said.sum(), "real": real.sum(),
            "said_squared": said.square().sum(), "real_squared": real.square().sum(), "product": (said * real).sum(),
            "squared_error": ((said - real) * deviation.to(said)).square().sum(),
            "each_said": said, "each_real": real,
        }  # fmt: skip

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """Pearson's and Spearman's correlation, and the root of the mean squared error in the target's own units.

        Spearman's is Pearson's of the ranks within all rows; rows of a mixture count alike there.
        """
        rows = float(totals["rows"])
        means = {name: float(totals[name]) / rows for name in totals if name not in self.traits.each_row}
        product = means["product"] - means["said"] * means["real"]
        spread = [max(0.0, means[f"{name}_squared"] - means[name] ** 2) for name in ("said", "real")]
        scale = (spread[0] * spread[1]) ** 0.5
        return {
            "pearson": product / scale if scale else 0.0,
            "spearman": spearman(totals["each_said"], totals["each_real"]),
            "rmse": means["squared_error"] ** 0.5,
        }

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        """The mean squared error of the mean of the training targets."""
        squares = [float(value) ** 2 for examples in held_out.once(windows) for value in examples.targets]
        return ("the mean of the training targets", float(np.mean(squares))) if squares else None

    def _predicted(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        """(B,) fp32."""
        return pooled(outputs(model, examples, noise, auxiliary), examples)[:, 0].float()

    def _standardised(self, feed: Feed, corpus: Corpus, setting: Setting) -> Feed:
        moments = moments_of(corpus.train)
        return remade(feed, partial(self.examples, setting=setting, moments=moments))


def moments_of(table: object) -> tuple[float, float]:
    """Mean and deviation of the numbers of a split; 1 for a deviation of 0."""
    assert isinstance(table, RecordTable), "records are prepared as a table"
    values = np.asarray(table.columns["value"].numbers, dtype=np.float64)
    return (float(values.mean()), float(values.std()) or 1.0) if len(values) else (0.0, 1.0)


def spearman(said: Tensor, real: Tensor) -> float:
    """Spearman's rank correlation of two series (N,): Pearson's correlation of their ranks; 0 where one has a single value.

    Equal values share the mean of their ranks (Spearman 1904).
    """
    first, second = (_centred_ranks(series) for series in (said, real))
    scale = float(first.norm() * second.norm())
    return float(first @ second) / scale if scale else 0.0


def _centred_ranks(series: Tensor) -> Tensor:
    """(N,) float64: the ranks, less their mean; of equal values the mean of theirs."""
    _, value, count = torch.unique(series, return_inverse=True, return_counts=True)
    ranks: Tensor = count.cumsum(0) - (count - 1) / 2
    return ranks[value].double() - (len(series) + 1) / 2
