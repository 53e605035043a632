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


class Constant(_Warm):
    """Stay at 1; `floor` is not used."""

    kind: Literal["constant"] = "constant"

    def _after(self, progress: float) -> float:
        return 1.0


Schedule = Annotated[Cosine | Linear | WarmupStableDecay | Constant, Field(discriminator="kind")]
