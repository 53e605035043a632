"""The loss of a model that knows only how often each target occurs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from anyformer.data import IGNORED
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed

MOST = 2_000_000
"""Targets that are counted at most."""


def frequency_loss(training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> float:
    """Mean of -log p(target) over the held-out targets, p(v) = (n_v + 1) / (n + V): n_v of the n training targets are v."""
    counts = _counts(_few(training.at(step) for step in range(steps)), outputs) + 1
    asked = _counts(held_out.once(windows), outputs)
    return float(-(asked * (counts / counts.sum()).log()).sum() / asked.sum().clamp(min=1e-9))


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
        counts += torch.bincount(examples.targets[valid], weights[valid].double(), minlength=outputs)
    return counts
