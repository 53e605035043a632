"""Depthwise projection: each feature by itself, with one weight and a bias or none."""

from __future__ import annotations

from anyformer.operations import Tally, Weight, total


def depthwise(name: str, width: int) -> Tally:
    """The weights of a `Depthwise`; its work is element-wise, no matrix product.

    It starts as the identity: the rules for matrices scale with the number of inputs, and here each output has one.
    """
    weights = {"weight": Weight((width,), "replicate", "ones"), "bias": Weight((width,), "replicate", "zeros")}
    return total({name: Tally(weights)})
