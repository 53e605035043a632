"""Low-communication data parallelism: replicas that train alone for many steps and then exchange what they learned."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType

from anyformer.describe import UserError
from anyformer.planning import communication

OUTER_STATE = 8
"""Bytes per parameter that a replica keeps on top: the weights of the last outer step and Nesterov's momentum, both in fp32."""


@dataclass(frozen=True)
class OuterSteps:
    """Replicas take `every` inner steps alone, then an outer optimiser steps along the mean of their differences (DiLoCo).

    Each parameter is exchanged once in `every` = H inner steps, in `bits`. In Streaming DiLoCo it goes in `fragments` = F, one
    after another, and training goes on for `delay` inner steps while a fragment travels; without, it waits.
    Source: Douillard et al. 2023, arXiv 2311.08105, algorithm 1; 2025, arXiv 2501.18512, section 2.
    """

    every: int
    bits: int = 32
    fragments: int = 1
    delay: int = 0

    def __post_init__(self) -> None:
        for name in ("every", "bits", "fragments"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} of outer steps is 1 or more, got {getattr(self, name)}")
        if self.delay < 0:
            raise UserError(f"delay of outer steps is a number of inner steps, 0 or more, got {self.delay}")
        if self.least > self.every:
            raise UserError(
                f"{self.fragments} fragments that travel for {max(self.delay, 1)} inner steps do not fit into the {self.every} "
                f"between outer steps: take {self.least} or more, or fewer fragments"
            )

    @property
    def least(self) -> int:
        """The fewest inner steps between two outer ones, in which F fragments travel one after another: F * max(delay, 1)."""
        return self.fragments * max(self.delay, 1)

    def exchanged(self, parameters: int, replicas: int) -> int:
        """Bytes that leave a replica between two outer steps, all fragments together: 2 (k - 1) / k * parameters * bits / 8."""
        return communication.all_reduce(parameters * self.bits // 8, replicas)

    def exposed(self, seconds: float, latency: float, step: float) -> float:
        """Seconds that each inner step of `step` seconds waits, where the bytes of all fragments take `seconds` to travel.

        F / H * max(seconds / F + latency - delay * step, 0).
        """
        alone = seconds / self.fragments + latency
        return self.fragments / self.every * max(alone - self.delay * step, 0.0)


@dataclass(frozen=True)
class PublishedLoss:
    """What the authors of a way of outer steps print of its loss, beside that of gradients exchanged every step."""

    title: str
    source: str
    outer: OuterSteps
    measure: str
    parameters: float
    largest: float
    """Parameters of the largest model that they train so."""
    rows: tuple[tuple[str, float, float], ...]
    """What is held fixed, the figure of synchronous training, that of outer steps."""
    exchanged: tuple[tuple[float, float], ...]
    """Terabytes per row, where they print them."""
    remark: str


def _published() -> Mapping[str, PublishedLoss]:
    text = files("anyformer.planning").joinpath("published_outer_steps.toml").read_text(encoding="utf-8")
    return MappingProxyType(
        {
            name: PublishedLoss(
                row["title"],
                row["source"],
                OuterSteps(row["every"], row["bits"], row["fragments"], row["delay"]),
                row["measure"],
                row["parameters"],
                row["largest"],
                tuple((what, synchronous, outer) for what, synchronous, outer in row["rows"]),
                tuple((synchronous, outer) for synchronous, outer in row.get("exchanged", ())),
                row["remark"],
            )
            for name, row in tomllib.loads(text).items()
        }
    )


PUBLISHED_LOSSES: Mapping[str, PublishedLoss] = _published()
