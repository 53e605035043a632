"""Factors that follow from a size of the architecture, or from the number of a layer, described by the rule they follow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator

WidthRule = Literal["sqrt_width", "inverse_sqrt_width"]
"""sqrt(D) and 1 / sqrt(D)."""
DepthRule = Literal["inverse_sqrt_2_depth"]
"""1 / sqrt(2 L), L the layers of the stack that the head reads."""
LayerRule = Literal["by_layer"]
"""A formula of the layer's number, which the part gives."""


def _checked(rule: object, bounds: str, fits: Callable[[float], bool]) -> BeforeValidator:
    """A check that a factor is a finite number within bounds, or one of a rule's words."""

    def check(factor: Any) -> Any:
        is_number = type(factor) in (int, float) and math.isfinite(factor) and fits(factor)
        if not is_number and not (isinstance(factor, str) and factor in get_args(rule)):
            words = " or ".join(map(repr, get_args(rule)))
            raise ValueError(f"should be a finite number {bounds}, or {words}; got {factor!r} ({type(factor).__name__})")
        return factor

    return BeforeValidator(check)


WidthFactor = Annotated[float | WidthRule, _checked(WidthRule, "above 0", lambda factor: factor > 0)]
DepthFactor = Annotated[float | DepthRule, _checked(DepthRule, "above 0", lambda factor: factor > 0)]
LayerScale = Annotated[float | LayerRule, _checked(LayerRule, "above 0", lambda factor: factor > 0)]
LayerFactor = Annotated[float | LayerRule, _checked(LayerRule, "of at least 0", lambda factor: factor >= 0)]
LayerShare = Annotated[float | LayerRule, _checked(LayerRule, "from 0 to 1", lambda share: 0 <= share <= 1)]


def of_width(factor: float | WidthRule, width: int) -> float:
    """The value of a factor at D = `width`."""
    if isinstance(factor, str):
        return float(width ** (0.5 if factor == "sqrt_width" else -0.5))
    return factor


def of_depth(factor: float | DepthRule, depth: int) -> float:
    """The value of a factor at L = `depth`."""
    return float((2 * depth) ** -0.5) if isinstance(factor, str) else factor
