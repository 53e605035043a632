"""Equal up to the rounding of fp32, or visibly not; refused, or taken."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from anyformer.model import InputError


def equal(ours: Tensor, theirs: Tensor, what: str = "") -> None:
    """Raise `AssertionError` unless both are the same numbers up to fp32's rounding."""
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, msg=lambda text: f"{what}: {text}" if what else text)


def unequal(ours: Tensor, theirs: Tensor, what: str) -> None:
    """Raise `AssertionError` where a declared limit is none: both are the same numbers."""
    assert (ours - theirs).abs().max() > 1e-4, f"{what}: it declares a limit that it does not have"


def equal_unless(limits: tuple[str, ...], ours: Tensor, theirs: Tensor, what: str) -> None:
    """Equal, or, where `limits` say that it cannot be, unequal: a limit that is none keeps people from what works."""
    if limits:
        unequal(ours, theirs, f"{what}, not held because {limits[0]}")
    else:
        equal(ours, theirs, what)


def refusal(call: Callable[[], object]) -> str:
    """Why a model refuses its input; empty where it takes it."""
    try:
        call()
    except InputError as error:
        return str(error)
    return ""
