"""The loss of a model that knows only how often each target occurs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed

MOST = 2_000_000
"""Targets that are counted at most."""


def frequency_loss(training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> float:
    """Mean of -log p(target) over the held-out targets, p(v) = (n_v + 1) / (n + V): n_v of the n training targets are v."""
    return chance(*target_counts(training, steps, held_out, windows, outputs))


def chance(known_V: Tensor, asked_V: Tensor) -> float:
    """Mean of -log p over the `asked_V` targets, p(v) = (known_v + 1) / (known + V)."""
    shares = (known_V + 1) / (known_V + 1).sum()
    return float(-(asked_V * shares.log()).sum() / asked_V.sum().clamp(min=1e-9))


def target_counts(training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[Tensor, Tensor]:
    """(V,) each: how often each target occurs in training and among the held-out ones; V is `outputs`, or more if targets
    are."""
    known = _counts(_few(training.at(step) for step in range(steps)), outputs)
    asked = _counts(held_out.once(windows), outputs)
    most = max(len(known), len(asked))
    return F.pad(known, (0, most - len(known))), F.pad(asked, (0, most - len(asked)))


def _few(batches: Iterable[Examples]) -> Iterator[Examples]:
    """The first batches, with `MOST` targets in all."""
    seen = 0
    for examples in batches:
        yield examples
        seen += examples.targets.numel()
        if seen >= MOST:
            return


def _counts(batches: Iterable[Examples], outputs: int) -> Tensor:
    """(V,) float64: the weight of the targets of each number."""
    counts = torch.zeros(outputs, dtype=torch.float64)
    for examples in batches:
        valid = examples.targets != IGNORED
        weights = torch.ones_like(examples.targets, dtype=torch.float64) if examples.weights is None else examples.weights
        found = torch.bincount(examples.targets[valid], weights[valid].double(), minlength=len(counts))
        counts = F.pad(counts, (0, len(found) - len(counts))) + found
    return counts
