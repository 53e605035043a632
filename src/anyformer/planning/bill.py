"""What a training run takes: checkpoint traffic, energy and price."""

from __future__ import annotations

import math
from dataclasses import dataclass

from anyformer.describe import UserError
from anyformer.planning.failures import DAY, HOUR, Saves

PUE = 1.1
"""Power usage effectiveness: energy of a data centre over that of its machines; the one that LLaMA's authors count with
(arXiv 2302.13971, section 6)."""


@dataclass(frozen=True)
class CheckpointTraffic:
    """Checkpoints of `whole` bytes on the way to a storage, one after every `interval` seconds of work."""

    whole: int
    saves: Saves
    interval: float

    @property
    def share(self) -> float:
        """Share of the storage's bandwidth that saves take on average: write / (interval + pause)."""
        return self.saves.write / (self.interval + self.saves.pause)

    @property
    def daily(self) -> float:
        """Bytes a day, while nothing fails."""
        return self.whole * DAY / (self.interval + self.saves.pause)


@dataclass(frozen=True)
class RunBill:
    """Energy and price of so many accelerators for so many seconds; all times in seconds."""

    accelerators: int
    wall: float
    power: float | None
    """Watts of one accelerator, all the time: its thermal design power, an upper bound of it, and hosts and network left out.
    None where it is not known."""
    rate: float
    """Dollars for an hour of one accelerator."""
    pue: float = PUE

    def __post_init__(self) -> None:
        for name, least in (("power", 0.0), ("rate", 0.0), ("pue", 1.0)):
            value = getattr(self, name)
            if value is not None and not (value >= least and math.isfinite(value)):
                raise UserError(f"{name} of a run is a number, {least:g} or more, got {value}")

    @property
    def hours(self) -> float:
        """Accelerator-hours."""
        return self.accelerators * self.wall / HOUR

    @property
    def energy(self) -> float | None:
        """Watt-hours: hours * power * pue (Strubell et al. 2019, arXiv 1906.02243, equation 1, of accelerators alone)."""
        return None if self.power is None else self.hours * self.power * self.pue

    @property
    def price(self) -> float:
        """Dollars: hours * rate."""
        return self.hours * self.rate
