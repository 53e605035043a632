"""Whether two results differ by rounding alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from huggingface import parity
from huggingface.nearness import Nearness
from huggingface.parity import Pair

EXACT = 1e-7
"""Largest difference in fp64 of two that compute the same."""
LESS = 10
"""How many times smaller a difference is once nothing rounds to fp32, if it came from rounding."""


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
    """Whether both compute the same once neither rounds to fp32: then only the order in which they round differs.

    A class that takes some steps in fp32 whatever its type is (the angles of positions, a router) is held to the bound of the
    tests with these steps in fp64, and to a small part of the difference in fp32: another computation would differ as before.
    """
    try:
        exact = replace(pair.exact, ours=deepcopy(pair.ours).double())
        if compared.found(exact) <= EXACT:
            return True
        with wide_casts():
            left = compared.found(exact)
        return left <= min(pair.case.logits, compared.found(pair) / LESS)
    except Exception:  # as above
        return False


@contextmanager
def wide_casts() -> Iterator[None]:
    """Within, what asks for fp32 by `float()`, `to(torch.float32)` or a softmax gets fp64."""
    to, single, softmax = Tensor.to, Tensor.float, F.softmax

    def wide(value: Any) -> Any:
        return torch.float64 if value is torch.float32 else value

    def wide_to(tensor: Tensor, *given: Any, **named: Any) -> Tensor:
        return to(tensor, *map(wide, given), **{name: wide(value) for name, value in named.items()})

    def wide_softmax(*given: Any, **named: Any) -> Tensor:
        return softmax(*given, **{name: wide(value) for name, value in named.items()})

    Tensor.to, Tensor.float, F.softmax = wide_to, lambda tensor, **_: tensor.double(), wide_softmax  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Tensor.to, Tensor.float, F.softmax = to, single, softmax  # type: ignore[method-assign]


@torch.no_grad()
def alone_gap(pair: Pair) -> float:
    """Of ours of a padded row, against theirs of the row without its padding."""
    x = parity.inputs(pair)
    decodes = pair.ours.architecture.decoder is not None and len(x) == 1
    kept = slice(3, None) if decodes else slice(0, -3)
    padding = torch.ones_like(x[0], dtype=torch.bool)
    padding[:, kept] = False
    try:
        alone = parity.their_logits(pair, x[0][:, kept], target=x[1] if len(x) > 1 else None)
    except Exception:  # which is another refusal than that of the padded batch
        return float("inf")
    ours = pair.ours(x[0].masked_fill(padding, 0), *x[1:], padding=padding)
    if ours.dim() == 3 and len(x) == 1:  # of waves there are fewer frames than samples
        frames = alone.shape[1]
        ours = ours[:, -frames:] if decodes else ours[:, :frames]
    return parity.gap(ours, alone)
