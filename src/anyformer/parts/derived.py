"""Factors that follow from a size of the architecture, described by the rule they follow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator

WidthRule = Literal["sqrt_width", "inverse_sqrt_width"]
"""sqrt(D) and 1 / sqrt(D)."""
DepthRule = Literal["inverse_sqrt_2_depth"]
"""1 / sqrt(2 L), L the layers of the stack that the head reads."""


def _refuse_others(*rules: str) -> Callable[[Any], Any]:
    """A check that a factor is a finite number above 0 or one of the rules."""

    def check(factor: Any) -> Any:
        is_number = type(factor) in (int, float) and math.isfinite(factor) and factor > 0
        if not is_number and not (isinstance(factor, str) and factor in rules):
            words = " or ".join(map(repr, rules))
            raise ValueError(f"should be a finite number above 0, or {words}; got {factor!r} ({type(factor).__name__})")
        return factor

    return check


WidthFactor = Annotated[float | WidthRule, BeforeValidator(_refuse_others(*get_args(WidthRule)))]
DepthFactor = Annotated[float | DepthRule, BeforeValidator(_refuse_others(*get_args(DepthRule)))]


def of_width(factor: float | WidthRule, width: int) -> float:
    """The value of a factor at D = `width`."""
    if isinstance(factor, str):
        return float(width ** (0.5 if factor == "sqrt_width" else -0.5))
    return factor


def of_depth(factor: float | DepthRule, depth: int) -> float:
    """The value of a factor at L = `depth`."""
    return float((2 * depth) ** -0.5) if isinstance(factor, str) else factor
