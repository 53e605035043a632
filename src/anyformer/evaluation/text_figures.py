"""What a model of the next token reaches on running text: by position, by length of document, and how sure it may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.evaluation.readings import TextReading
from anyformer.model.loss import token_losses
from anyformer.model.transformer import Transformer
from anyformer.objectives import Examples
from anyformer.objectives.token_loss import TokenObjective
from anyformer.parts.call.reports import Auxiliary
from anyformer.plan import Plan
from anyformer.training.precision import autocast

BINS = 10
"""Bins of the probability of the likeliest token."""
TOP = 5
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Sums:
    """Targets, their summed loss in nats, how many the likeliest token got right, and how many the first five."""

    count: int
    nats: float
    correct: int
    among_five: int

    @property
    def loss(self) -> float:
        return self.nats / self.count if self.count else math.nan

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700)) if self.count else math.nan

    @property
    def accuracy(self) -> float:
        return self.correct / self.count if self.count else math.nan

    @property
    def top_5_accuracy(self) -> float:
        return self.among_five / self.count if self.count else math.nan


@dataclass(frozen=True)
class ContextBucket:
    """The sums over targets with `first` to `last` tokens before them, or in documents of so many tokens."""

    first: int
    last: int
    sums: Sums


@dataclass(frozen=True)
class Bin:
    """The predictions whose probability lies in one of ten equal parts of 0 to 1."""

    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class TextFigures:
    """`rows` and `documents` (each): (units, 2), the number of targets and the summed loss of each, in order."""

    whole: Sums
    by_position: tuple[ContextBucket, ...]
    by_document: tuple[ContextBucket, ...]
    calibration: tuple[Bin, ...]
    bytes_each: float | None
    """Bytes of text of each token, None where unknown."""
    rows: Floats = field(repr=False)
    documents: Floats = field(repr=False)

    @property
    def bits_per_byte(self) -> float | None:
        """Loss in bits per byte of the text's UTF-8."""
        return self.whole.loss / math.log(2) / self.bytes_each if self.bytes_each else None

    @property
    def calibration_error(self) -> float:
        """ECE = sum_b n_b / n |accuracy_b - confidence_b| over ten bins of the likeliest token's probability.

        Guo et al. 2017, arXiv 1706.04599, equation 3: 0 if the model is right as often as it says.
        """
        whole = sum(each.count for each in self.calibration)
        off = sum(each.count * abs(each.accuracy - each.confidence) for each in self.calibration if each.count)
        return off / whole if whole else math.nan


@dataclass(frozen=True, eq=False)
class _Places:
    """Of each target of a batch: nats, whether right, whether among five, the probability of the likeliest token, its row,
    and its place in the row, as flat arrays."""

    nats: Floats
    correct: Floats
    among_five: Floats
    confidence: Floats
    before: Ints
    """Tokens that the prediction was made from."""
    row: Ints
    column: Ints
    read: int
    """Positions of the batch."""


def text_figures(
    model: Transformer,
    objective: TokenObjective,
    reading: TextReading,
    plan: Plan,
    progress: Callable[[int], None] = lambda done: None,
) -> TextFigures:
    """The figures of the whole text, in one pass. `progress` is called after every batch with the tokens read so far."""
    lengths, seen = reading.lengths, 0
    positions = np.zeros((reading.length.bit_length() + 1, 4))
    documents, bins, rows = np.zeros((len(lengths), 4)), np.zeros((BINS, 3)), np.zeros((reading.rows, 2))
    for each in _batches(model, objective, reading, plan):
        columns = np.stack([np.ones_like(each.nats), each.nats, each.correct, each.among_five], 1)
        _add(positions, np.log2(each.before).astype(np.int64), columns)
        _add(documents, reading.documents(each.row, each.column), columns)
        _add(rows, each.row, columns[:, :2])
        said = np.stack([np.ones_like(each.nats), each.confidence, each.correct], 1)
        _add(bins, np.minimum((each.confidence * BINS).astype(np.int64), BINS - 1), said)
        seen += each.read
        progress(min(seen, reading.whole))
    whole = _sums(positions.sum(0))
    return TextFigures(
        whole,
        tuple(_buckets(positions, reading.length)),
        tuple(_buckets(_by_length(documents, lengths), int(lengths.max()))) if len(lengths) > 1 else (),
        tuple(Bin(int(n), sure / n if n else math.nan, right / n if n else math.nan) for n, sure, right in bins.tolist()),
        reading.bytes_each(whole.count),
        rows,
        documents[:, :2].copy(),
    )


def _batches(model: Transformer, objective: TokenObjective, reading: TextReading, plan: Plan) -> Iterator[_Places]:
    with torch.no_grad(), autocast(plan, model.device):
        for part in reading.once():
            examples = part.to(model.device)
            logits = objective.logits(model, examples, None, Auxiliary(objective.counted(examples)))
            yield _places(logits, examples)


def _places(logits_BTV: Tensor, examples: Examples) -> _Places:
    """The figures of each target."""
    targets = examples.targets
    valid = targets != IGNORED
    nats, log_z = token_losses(logits_BTV, targets)
    largest, said = logits_BTV.float().max(-1)
    chosen = logits_BTV.float().gather(-1, targets.clamp(min=0)[..., None])
    above = (logits_BTV.float() > chosen).sum(-1)
    row, column = (place.cpu().numpy() for place in valid.nonzero(as_tuple=True))

    def flat(x: Tensor) -> Floats:
        values: Floats = x[valid].double().cpu().numpy()
        return values

    before = _before(examples)[valid].cpu().numpy()
    rows = examples.rows.cpu().numpy()[row]
    return _Places(
        flat(nats), flat(said == targets), flat(above < TOP), flat((largest - log_z).exp()), before, rows, column,
        targets.numel(),
    )  # fmt: skip


def _before(examples: Examples) -> Tensor:
    """(B, T): the tokens that each prediction is made from, its own position included; of its document, if isolated."""
    index = torch.arange(examples.targets.shape[1], device=examples.targets.device).expand(examples.targets.shape)
    if examples.documents is None:
        return index + 1
    begins = torch.ones_like(examples.documents, dtype=torch.bool)
    begins[:, 1:] = examples.documents[:, 1:] != examples.documents[:, :-1]
    return index + 1 - torch.where(begins, index, 0).cummax(1).values


def _add(sums: Floats, places: Ints, columns: Floats) -> None:
    """sums[places[i]] += columns[i]."""
    for column in range(sums.shape[1]):
        sums[:, column] += np.bincount(places, weights=columns[:, column], minlength=len(sums))


def _by_length(documents: Floats, lengths: Ints) -> Floats:
    """(buckets, 4): the documents' sums, by the power of two below their length."""
    powers = np.log2(np.maximum(lengths, 1)).astype(np.int64)
    sums = np.zeros((int(powers.max()) + 1, documents.shape[1]))
    _add(sums, powers, documents)
    return sums


def _buckets(sums: Floats, most: int) -> Iterator[ContextBucket]:
    for power, each in enumerate(sums):
        if each[0]:
            yield ContextBucket(2**power, min(2 ** (power + 1) - 1, most), _sums(each))


def _sums(columns: Floats) -> Sums:
    count, nats, correct, among_five = columns.tolist()
    return Sums(round(count), nats, round(correct), round(among_five))
