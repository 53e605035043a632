"""Whether two results differ by rounding alone."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from huggingface.nearness import Nearness
from huggingface.parity import Pair

EXACT = 1e-7
"""Largest difference in fp64 of two that compute the same."""


def is_rounding(compared: Nearness, pair: Pair) -> bool:
    """Whether ours is as near to theirs in fp64 as theirs in fp32 is, as the tests ask beyond their bound, or both are equal
    in fp64."""
    try:
        compared.check(pair)
    except AssertionError:
        return _equal_in_fp64(compared, pair)
    except Exception:  # a class that computes nothing in fp64 tells nothing
        return False
    return True


def _equal_in_fp64(compared: Nearness, pair: Pair) -> bool:
    """Whether both compute the same once neither rounds to fp32: then only the order in which they round differs."""
    try:
        return compared.found(replace(pair.exact, ours=deepcopy(pair.ours).double())) <= EXACT
    except Exception:  # as above
        return False
