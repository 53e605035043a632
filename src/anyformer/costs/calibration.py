"""This machine as hardware: peaks from a matrix product, bandwidth from a copy, launches from a tiny addition."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache

import torch

from anyformer.costs.hardware import HERE, Efficiency, Hardware

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@cache
def calibrated(seconds: float = 5.0, device: str | None = None) -> Hardware:
    """A `device` of this machine, by default its first accelerator, else its processor, measured once, in about `seconds`.

    Peaks are those of the fastest product of square matrices, the bandwidth that of a copy (which reads and writes), so the
    shares reached are 1, of attention one half. Links are not measured: one device stands alone.
    """
    return _measured(torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu")), seconds)


def _measured(device: torch.device, seconds: float) -> Hardware:
    side, numbers = (8192, 1 << 28) if device.type == "cuda" else (1024, 1 << 25)
    peaks = {name: 2 * side**3 / _product(device, dtype, side, seconds * 0.3) for name, dtype in DTYPES.items()}
    copied = torch.ones(numbers, device=device)
    target = torch.empty_like(copied)
    bandwidth = 2 * copied.nbytes / fastest(lambda: target.copy_(copied), device, seconds * 0.3)
    one = torch.ones(1, device=device)
    return Hardware(
        HERE,
        f"this machine ({_title(device)})",
        peaks,
        bandwidth,
        _memory(device),
        bandwidth / 2,
        bandwidth / 2,
        1,
        "measured here",
        Efficiency(matrix=1.0, attention=0.5, memory=1.0, elementwise=1.0),
        _launch(lambda: one.add_(1), device, seconds * 0.1),
    )


def fastest(call: Callable[[], object], device: torch.device, seconds: float) -> float:
    """The shortest of the runs that fit into `seconds`, at least two, the first of which warms up."""
    best, started = float("inf"), time.perf_counter()
    for i in range(10_000):
        before = time.perf_counter()
        call()
        _wait(device)
        now = time.perf_counter()
        best = min(best, now - before) if i else best
        if i and now - started > seconds:
            break
    return best


def best_times(rounds: int, *calls: Callable[[], object]) -> list[float]:
    """The shortest time of every call on the processor, in turn, after a first round that is not counted."""
    times = [float("inf")] * len(calls)
    for round_ in range(rounds + 1):
        for number, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            if round_:
                times[number] = min(times[number], time.perf_counter() - begin)
    return times


def _launch(call: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Seconds of one call among many back to back."""

    def hundred() -> None:
        for _ in range(100):
            call()

    return fastest(hundred, device, seconds) / 100


def _product(device: torch.device, dtype: torch.dtype, side: int, seconds: float) -> float:
    """Seconds of a product of two square matrices."""
    left = torch.randn(side, side, device=device).to(dtype)
    right = torch.randn(side, side, device=device).to(dtype)
    return fastest(lambda: left @ right, device, seconds)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _memory(device: torch.device) -> float:
    """Bytes of memory."""
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")  # Windows has no such figure.


def _title(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads"
