"""Comparisons of numbers: equal up to the rounding of fp32, or visibly different; refused, or taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from anyformer.describe import InputError


def equal(ours: Tensor, theirs: Tensor, what: str = "") -> None:
    """Raise `AssertionError` unless both are the same numbers up to fp32's rounding, which goes with the largest of them."""
    atol = 1e-5 * max(1.0, float(theirs.detach().abs().max())) if theirs.numel() and theirs.is_floating_point() else 1e-5
    if ours.shape == theirs.shape and ours.dtype == theirs.dtype and torch.allclose(ours, theirs, 1e-4, atol):
        return  # at its first call `assert_close` imports what is divided among processes, for half a second
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=atol, msg=lambda text: f"{what}: {text}" if what else text)


def unequal(ours: Tensor, theirs: Tensor, what: str) -> None:
    """Raise `AssertionError` unless both are visibly different numbers."""
    assert _differ(ours, theirs), f"{what}: the same numbers"


def equal_unless(limits: tuple[str, ...], pairs: Mapping[str, tuple[Tensor, Tensor]]) -> None:
    """Raise `AssertionError` unless every pair is equal; with `limits`, unless some pair is visibly different."""
    if limits:
        # A needless limit keeps people from using what works.
        assert any(_differ(*pair) for pair in pairs.values()), f"declares a limit that it does not have: {limits[0]}"
        return
    for what, (ours, theirs) in pairs.items():
        equal(ours, theirs, what)


def _differ(ours: Tensor, theirs: Tensor) -> bool:
    return bool((ours - theirs).abs().max() > 1e-4)


def refusal(call: Callable[[], object]) -> str:
    """The error of a call in which a model refuses its input; empty if it takes it."""
    try:
        call()
    except InputError as error:
        return str(error)
    return ""
