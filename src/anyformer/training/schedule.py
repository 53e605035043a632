"""Learning-rate schedules: a factor of the peak rate as a pure function of the step."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from anyformer.describe import Value

Steps = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class _Warm(Value):
    """Rise linearly from 0 over `warmup` steps, then follow the schedule."""

    warmup: Steps = 100
    """Steps of the rise, at most half of all steps."""
    floor: Share = 0.1
    """The factor of the last step."""

    def factor(self, step: int, steps: int) -> float:
        """The factor for update number `step` (from 0) of `steps`."""
        warmup = min(self.warmup, steps // 2)
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return self._after(min(1.0, (step - warmup) / max(1, steps - 1 - warmup)))

    @property
    def falls(self) -> bool:
        """Whether the rate falls after its rise."""
        return self.floor < 1

    def _after(self, progress: float) -> float:
        raise NotImplementedError


class Cosine(_Warm):
    """Half a cosine from 1 to `floor` (Loshchilov & Hutter 2017, arXiv 1608.03983)."""

    kind: Literal["cosine"] = "cosine"

    def _after(self, progress: float) -> float:
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))


class Linear(_Warm):
    """A straight line from 1 to `floor`."""

    kind: Literal["linear"] = "linear"

    def _after(self, progress: float) -> float:
        return 1 - (1 - self.floor) * progress


class WarmupStableDecay(_Warm):
    """Stay at 1, then fall straight to `floor` over the last `decay` share of the steps (Hu et al. 2024, arXiv 2404.06395)."""

    kind: Literal["warmup_stable_decay"] = "warmup_stable_decay"
    decay: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Share of the steps after the rise over which the rate falls."""

    def _after(self, progress: float) -> float:
        return 1 - (1 - self.floor) * max(0.0, (progress - (1 - self.decay)) / self.decay)


class ConstantSchedule(_Warm):
    """Stay at 1; `floor` is not used."""

    kind: Literal["constant"] = "constant"

    @property
    def falls(self) -> bool:
        return False

    def _after(self, progress: float) -> float:
        return 1.0


class InverseSquareRoot(_Warm):
    """Fall as 1 / sqrt(step) after the rise (Vaswani et al. 2017, arXiv 1706.03762); T5 has no rise and stays at 1 at first.

    At update number t, from 1, the factor is sqrt(k / max(k, t)) with k the greater of `warmup` + 1 and `warmup` + `flat`:
    whatever the number of updates in all, so that a run can go on at any time.
    """

    kind: Literal["inverse_square_root"] = "inverse_square_root"
    floor: Share = 0.0
    """The least factor."""
    flat: Steps = 0
    """Steps at 1 after the rise: 10,000 in T5 (Raffel et al. 2020, arXiv 1910.10683), with `warmup` = 0."""

    def factor(self, step: int, steps: int) -> float:
        warmup = min(self.warmup, steps // 2)
        if step < warmup:
            return (step + 1) / (warmup + 1)
        first = max(warmup + 1, warmup + self.flat)
        return max(self.floor, math.sqrt(first / max(first, step + 1)))


Schedule = Annotated[Cosine | Linear | WarmupStableDecay | ConstantSchedule | InverseSquareRoot, Field(discriminator="kind")]
