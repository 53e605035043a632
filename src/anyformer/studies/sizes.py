"""Smaller sizes of a study: gates that hopeless arms do not pass, and a ladder from which a law is fitted."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from anyformer.describe import Count, Value

Smaller = Annotated[float, Field(gt=0, lt=1)]
"""A size as a multiple of the whole: of the parameters, or of what is matched."""
Tokens = Literal["proportional", "equal"]


class SizeGate(Value):
    """A small size at which all arms that are still there are tried, and the best of which alone go on.

    An arm is tried at every value of `tuning`, with its seeds; without tuning once, with `seed`. None of that counts in the
    verdicts, which are of other seeds.
    """

    size: Smaller
    """The base's parameters there, as a multiple of the whole; of arms as much as they have of the base's at the whole."""
    keep: Count
    """Arms beside the base that go on."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of the trials where nothing is tuned; none of `seeds`."""


class Ladder(Value):
    """Smaller sizes at which every arm is trained too, with every seed, so that loss = E + A / C^a can be fitted (C: FLOPs)."""

    sizes: tuple[Smaller, ...] = Field(min_length=2)
    """In rising order; the whole is the last rung."""
    beyond: Annotated[float, Field(ge=1, le=1000)] = 10.0
    """How many times the largest FLOPs the law is followed, marked as an extrapolation."""

    @field_validator("sizes")
    @classmethod
    def _rising(cls, sizes: tuple[float, ...]) -> tuple[float, ...]:
        if list(sizes) != sorted(set(sizes)):
            raise ValueError(f"should be different sizes in rising order, got {list(sizes)}")
        return sizes
