"""Curves of activations, worked out once by `docs/make_atlas.py`, since what computes them needs torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CURVES = Path(__file__).with_name("curves.json")


@dataclass(frozen=True)
class ActivationCurve:
    """An activation's values at equally spaced places from `low` to `high`."""

    name: str
    title: str
    low: float
    high: float
    values: tuple[float, ...]


@cache
def activation_curves() -> tuple[ActivationCurve, ...]:
    """The curve of every activation."""
    found = json.loads(CURVES.read_text(encoding="utf-8"))
    return tuple(ActivationCurve(**each | {"values": tuple(each["values"])}) for each in found)
