"""The FLOPs of a call, and the share of accelerators' peak that so many tokens a second are (MFU), for programs of others."""

from __future__ import annotations

from typing import Literal

from anyformer.costs.hardware import Hardware
from anyformer.costs.kernel import Mode
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.pricing import cost
from anyformer.describe import UserError
from anyformer.model import Architecture

PairsCounted = Literal["exact", "dense"]
"""The pairs of query and key that are counted: those that the masks allow, or all of them."""


def flops(
    architecture: Architecture,
    *,
    batch: int = 1,
    length: int = 4096,
    source_length: int | None = None,
    mode: Mode = "train",
    pairs: PairsCounted = "exact",
) -> int:
    """FLOPs of matrix products in one call, 2 per multiply-accumulate: of a training step forward and backward (`train`), of
    reading a prompt (`prefill`), or of one more token after `length` cached ones (`decode`), as `cost` counts them."""
    _positive(batch=batch, length=length)
    total = cost(architecture, batch=batch, length=length, source_length=source_length, mode=mode).flops.total
    return total.exact if pairs == "exact" else total.dense


def mfu(
    architecture: Architecture,
    tokens_per_second: float,
    devices: int = 1,
    *,
    length: int = 4096,
    source_length: int | None = None,
    hardware: str | Hardware = "h100",
    precision: str = "bf16",
    pairs: PairsCounted = "exact",
) -> float:
    """Model FLOPs utilisation: tokens/s x FLOPs of training per token / (devices x peak FLOP/s).

    `tokens_per_second`: of all `devices` together, of the target where there are two inputs. What a program computes again does
    not count (Chowdhery et al. 2022, arXiv 2204.02311, appendix B); `pairs="dense"` counts masked pairs, as that paper does.
    """
    _positive(tokens_per_second=tokens_per_second, devices=devices)
    per_row = flops(architecture, length=length, source_length=source_length, pairs=pairs)
    return tokens_per_second * per_row / length / (devices * hardware_of(hardware).peak(precision))


def _positive(**given: float) -> None:
    """Refuse what is not above 0."""
    for name, value in given.items():
        if not value > 0:
            raise UserError(f"{name} is {value:g}: give a number above 0")
