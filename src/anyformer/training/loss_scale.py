"""Dynamic loss scaling, by which fp16 keeps gradients that it could not hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.precision import Fp16, Precision


@dataclass
class LossScale:
    """S of L_scaled = S L, and how it changes: smaller after an overflow, greater after `interval` good updates in a row.

    Micikevicius et al. 2018, arXiv 1710.03740, section 3.2. `good`: updates in a row that were made at this scale; `skipped`:
    updates of the run that an overflow skipped.
    """

    rule: Fp16
    value: float
    good: int = 0
    skipped: int = 0

    @staticmethod
    def of(precision: Precision) -> LossScale | None:
        """The scale before the first update; None for a precision that needs none."""
        return LossScale(precision, precision.scale) if isinstance(precision, Fp16) else None

    def times(self, loss: Tensor) -> Tensor:
        """S L."""
        return loss * self.value

    def undo(self, parameters: Iterable[nn.Parameter]) -> None:
        """Divide the gradients by S, in place."""
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.div_(self.value)

    @property
    def exhausted(self) -> bool:
        """Whether another overflow would bring S below the smallest scale."""
        return self.value * self.rule.backoff < self.rule.smallest

    def overflowed(self) -> None:
        """Note an update that was skipped, because its gradient overflowed."""
        self.value *= self.rule.backoff
        self.good, self.skipped = 0, self.skipped + 1

    def passed(self) -> None:
        """Note an update that was made."""
        self.good += 1
        if self.good == self.rule.interval:
            grown = self.value * self.rule.growth
            self.value, self.good = grown if math.isfinite(grown) else self.value, 0

    def tensors(self) -> dict[str, Tensor]:
        """All that changes, for a checkpoint."""
        return {
            "loss_scale": torch.tensor(self.value, dtype=torch.float64),
            "loss_scale_good": torch.tensor(self.good),
            "loss_scale_skipped": torch.tensor(self.skipped),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` gave."""
        self.value = float(tensors["loss_scale"])
        self.good, self.skipped = int(tensors["loss_scale_good"]), int(tensors["loss_scale_skipped"])


def scale_figures(scale: LossScale | None, *, skipped: bool) -> dict[str, float | bool]:
    """The scale after an update, and whether it was skipped, for the metrics; nothing where there is no scale."""
    return {} if scale is None else {"loss_scale": scale.value, **({"skipped": True} if skipped else {})}


def scale_note(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """How many updates an overflow skipped, and the last scale, in words, from the metrics of a run that has a scale."""
    scaled = [row for row in rows if "loss_scale" in row]
    if not scaled:
        return []
    skipped = sum(row.get("skipped", False) for row in scaled)
    return [
        f"{skipped:,} of {len(scaled):,} updates were skipped for an overflow; the loss scale is {scaled[-1]['loss_scale']:g}"
    ]
