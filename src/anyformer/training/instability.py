"""Instabilities: what a run does about a loss that is not finite and about loss spikes, and what it remembers of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from anyformer.describe import Count, UserError, Value

NORMAL = 1.4826
"""Standard deviations of a normal distribution in one median absolute deviation."""
LEAST = 0.01
"""Share of the median loss that counts as one deviation at least, so that a flat curve has no spikes."""


REMEDIES = "a lower optimiser.learning_rate, a longer schedule.warmup or a smaller clip may help"


class SpikeError(UserError):
    """The loss spiked once more than the run may go back."""

    exit_code = 1


class StopRun(Value):
    """End the run at the first loss or gradient that is not finite; the weights are those before it."""

    kind: Literal["stop"] = "stop"
    most: ClassVar[int] = 0

    def skips(self, skipped: int) -> bool:
        """Whether one more batch is left out, after `skipped` of them."""
        return False


class SkipBatch(Value):
    """Leave out a batch whose loss or gradient is not finite: the next one takes its place, and no weight or moment changes."""

    kind: Literal["skip"] = "skip"
    most: Count = 10
    """Batches left out in the whole run, after which it ends."""

    def skips(self, skipped: int) -> bool:
        return skipped < self.most


NonFinite = Annotated[StopRun | SkipBatch, Field(discriminator="kind")]


@dataclass(frozen=True)
class Spike:
    """A loss far above the median of those before it."""

    loss: float
    median: float
    deviations: float

    def __str__(self) -> str:
        return f"loss spike: {self.loss:.4g}, {self.deviations:.1f} deviations above the running median {self.median:.4g}"


class _Spikes(Value):
    """A loss is a spike if it exceeds m + above * max(1.4826 d, 0.01 |m|), where m is the median of the latest `window` losses
    before it, and d the median of their distances from m; the first `window` / 4 updates have none."""

    window: Annotated[int, Field(ge=8)] = 64
    """Updates whose losses are compared."""
    above: Annotated[float, Field(gt=0)] = 8.0
    """Deviations above the median."""

    def spike(self, losses: Sequence[float], loss: float) -> Spike | None:
        """The spike that a loss is after these, if it is one."""
        latest = losses[-self.window :]
        if len(latest) < self.window // 4:
            return None
        middle = median(latest)
        deviation = max(NORMAL * median(abs(x - middle) for x in latest), LEAST * abs(middle))
        found = Spike(loss, middle, (loss - middle) / deviation if deviation else 0.0)
        return found if found.deviations > self.above else None


class ReportSpikes(_Spikes):
    """Say and count loss spikes, and go on."""

    kind: Literal["report"] = "report"

    @property
    def rewinds(self) -> int:
        """How often the run may go back."""
        return 0


class RewindSpikes(_Spikes):
    """At a loss spike go back to the last regular checkpoint, and train on with the batches after the spike.

    As in Chowdhery et al. 2022 (PaLM, arXiv 2204.02311, section 5.1), who restarted about 100 steps before a spike and left
    out 200 to 500 batches: the same batches caused no spike from other weights.
    """

    kind: Literal["rewind"] = "rewind"
    most: Count = 3
    """How often the run goes back, after which a spike ends it."""

    @property
    def rewinds(self) -> int:
        return self.most


Spikes = Annotated[ReportSpikes | RewindSpikes, Field(discriminator="kind")]


@dataclass(frozen=True)
class Past:
    """What a run remembers of its instabilities, which its checkpoints hold: update number n, from 0, reads batch n + `passed`.

    `skipped`: batches left out since they gave no finite loss; `spikes`, of which `rewound` were gone back for; `losses`: the
    latest ones, as many as are compared.
    """

    passed: int = 0
    skipped: int = 0
    spikes: int = 0
    rewound: int = 0
    losses: tuple[float, ...] = ()

    @staticmethod
    def of(facts: Mapping[str, Any] | None) -> Past:
        """What `facts` gave."""
        return Past() if facts is None else Past(**{**facts, "losses": tuple(facts["losses"])})

    def facts(self) -> dict[str, Any]:
        """Plain data, for a manifest; empty where nothing is remembered."""
        return {} if self == Past() else {"past": asdict(self)}

    def after(self, loss: float, spikes: _Spikes | None, spike: bool) -> Past:
        """After one more update."""
        if spikes is None:
            return self
        return replace(self, losses=(*self.losses, loss)[-spikes.window :], spikes=self.spikes + spike)

    def skipping(self) -> Past:
        """After one more batch that was left out."""
        return replace(self, passed=self.passed + 1, skipped=self.skipped + 1)

    def back(self, steps: int, then: Past) -> Past:
        """After going back by `steps` updates to where the past was `then`: the batches of these updates are not read again."""
        return replace(self, passed=self.passed + steps, rewound=self.rewound + 1, losses=then.losses)

    def lines(self) -> list[str]:
        """What happened, for the reader of a summary."""
        lines = []
        if self.skipped:
            lines.append(f"batches left out since they gave no finite loss or gradient: {self.skipped}")
        if self.spikes:
            back = f"; the run went back for {self.rewound} of them" if self.rewound else ""
            lines.append(f"loss spikes: {self.spikes}{back}")
        return lines
