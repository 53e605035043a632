"""Regression: a real number of a text, or of a pair of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.data import Corpus, Data, RecordBatch, RecordTable, Scored
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.examples import Examples
from anyformer.objectives.numbers import Moments, NumberObjective, columns_moments
from anyformer.objectives.objective import Setting, Totals
from anyformer.objectives.sequences import FRAME, lengths_of, outputs, pooled, sequences, texts_of
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.usual import BY_KIND
from anyformer.text import Specials


class RegressionObjective(NumberObjective):
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

    def examples(self, batch: RecordBatch, setting: Setting, moments: Moments = (0.0, 1.0)) -> Examples:
        """`targets` (B,) float32: standardised by `moments`, their mean and deviation; `facts` (B, 1): the deviation."""
        mean, deviation = moments
        given = sequences(texts_of(batch), setting.length, setting.tokenizer, self.frame)
        values = torch.tensor([float(record["value"]) for (record,) in batch.records], dtype=torch.float64)
        return Examples(
            given.tokens, ((values - mean) / deviation).float(), None, torch.from_numpy(batch.rows), padding=given.padding,
            types=given.types, counts=torch.ones(len(values), dtype=torch.float64),
            facts=torch.ones(len(values), 1, dtype=torch.float64) * deviation,
        )  # fmt: skip

    @property
    def traits(self) -> LossTraits:
        return LossTraits(each_row=frozenset({"each_said", "each_real"}))

    def moments(self, corpus: Corpus) -> Moments:
        mean_N, deviation_N = columns_moments(corpus.train, "value")
        return float(mean_N), float(deviation_N)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        types = torch.zeros(shape.batch, shape.length, dtype=torch.int64)
        return replace(made, targets=torch.zeros(shape.batch), types=types)

    def predicted(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        return pooled(outputs(model, examples, noise, auxiliary), examples)[:, :1].float()

    def number_statistics(self, said_BN: Tensor, examples: Examples) -> dict[str, Tensor]:
        said, real = said_BN[:, 0], examples.targets.double()
        return super().number_statistics(said_BN, examples) | {
            "said": said.sum(), "real": real.sum(),
            "said_squared": said.square().sum(), "real_squared": real.square().sum(), "product": (said * real).sum(),
            "each_said": said, "each_real": real,
        }  # fmt: skip

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """Pearson's and Spearman's correlation, and errors in the target's own units.

        Spearman's is Pearson's of the ranks within all rows; rows of a mixture count alike there.
        """
        summed = ("said", "real", "said_squared", "real_squared", "product")
        means = {name: float(totals[name] / totals["rows"]) for name in summed}
        product = means["product"] - means["said"] * means["real"]
        spread = [max(0.0, means[f"{name}_squared"] - means[name] ** 2) for name in ("said", "real")]
        scale = (spread[0] * spread[1]) ** 0.5
        return {
            "pearson": product / scale if scale else 0.0,
            "spearman": spearman(totals["each_said"], totals["each_real"]),
            **super().metrics(totals, names),
        }


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
