"""The weights whose products a plan computes in 8 or 4 bits."""

from __future__ import annotations

from anyformer.operations import Weight
from anyformer.precision import Narrow, Precision


def chosen(precision: Precision, weight: Weight) -> Narrow | None:
    """The precision of the products with a weight, where they are narrow: a matrix of a layer, large enough.

    Experts' stacked matrices keep the products of the plan's number format.
    """
    narrow = precision.narrow
    fits = narrow is not None and weight.multiplied and len(weight.shape) == 2
    return narrow if narrow is not None and fits and narrow.chooses(*weight.shape) else None
