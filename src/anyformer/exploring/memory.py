"""The traced memory of training, worked out in a process of its own: it needs torch, and declared figures wait for none."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.traceable import NEEDS_TORCH
from anyformer.exploring.figures import sheet_of
from anyformer.exploring.question import PricedCall
from anyformer.exploring.workshop import WAIT, Workshop
from anyformer.model import Architecture


class MemoryDesk:
    """Answers about the memory of training."""

    def __init__(self, wait: float = WAIT) -> None:
        self.workshop = Workshop(NEEDS_TORCH, wait)

    def answer(self, architecture: Architecture, call: PricedCall) -> dict[str, Any]:
        """The memory of a training step, or that it is pending, or why there is none."""
        return {"memory": None, **self.workshop.ask((architecture, call), traced, architecture.plain(), call)}

    def start(self) -> None:
        """Load torch in the worker, so that the first question does not wait for it."""
        self.workshop.start(ready)

    def close(self) -> None:
        """End the worker."""
        self.workshop.close()


def traced(described: dict[str, Any], call: PricedCall) -> dict[str, Any]:
    """The bytes of a training step at its peak, by purpose, and how many accelerators hold it."""
    start = time.perf_counter()
    sheet = sheet_of(Architecture.parse(described), call)
    memory = {**asdict(sheet.memory), "total": sheet.memory.total, "saved": sheet.activations.saved + sheet.activations.loss}
    devices = {name: -(-sheet.memory.total // hardware_of(name).usable_memory) for name in call.on}
    return {"memory": {**memory, "moment": sheet.peak.at}, "devices": devices, "seconds": time.perf_counter() - start}


def ready() -> dict[str, Any]:
    """Import what tracing needs."""
    import anyformer.costs.saved.tracing  # noqa: F401

    return {}
