"""Numbers that a forward pass computes with and nobody learns."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import Tensor

AT_HAND = ("cpu", "meta")
"""Devices on which numbers of Python are a tensor without a transfer."""
_KEPT: dict[tuple[Hashable, torch.dtype, torch.device], Tensor] = {}


def constant(name: Hashable, make: Callable[[], Tensor], dtype: torch.dtype, device: torch.device) -> Tensor:
    """What `make` gives, of a type and on a device; `name`: all that its numbers depend on.

    On a processor it is made in every call, so that no module has a buffer to lose. Elsewhere that would be a transfer, for
    which host and device wait and which no recorded graph of kernels can hold: there it is made once and kept.
    """
    if device.type in AT_HAND or torch.compiler.is_compiling():
        return make().to(device, dtype)
    place = name, dtype, device
    if place not in _KEPT:
        with torch.inference_mode(False):  # training may come after a generation
            _KEPT[place] = make().to(device, dtype)
    return _KEPT[place]


def listed(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """These numbers as a tensor."""
    return constant(values, lambda: torch.tensor(values, dtype=dtype, device=device), dtype, device)
