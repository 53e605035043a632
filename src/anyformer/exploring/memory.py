"""The traced memory of training, worked out in a process of its own: it needs torch, and declared figures wait for none."""

from __future__ import annotations

import signal
import time
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as Late
from dataclasses import asdict
from multiprocessing import get_context
from typing import Any

from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.traceable import NEEDS_TORCH, traceable
from anyformer.describe import UserError
from anyformer.exploring.figures import sheet_of
from anyformer.exploring.question import PricedCall
from anyformer.model import Architecture

WAIT = 3.0
"""Seconds after which an answer is `pending`, and is to be asked for again."""
KEPT = 64
Asked = tuple[Architecture, PricedCall]


class MemoryDesk:
    """Traces one question after the other; a question that nobody waits for any longer makes room for a newer one."""

    def __init__(self, wait: float = WAIT) -> None:
        self.wait = wait
        self._answers: dict[Asked, Future[dict[str, Any]]] = {}
        self._workers: ProcessPoolExecutor | None = None

    def answer(self, architecture: Architecture, call: PricedCall) -> dict[str, Any]:
        """The memory of a training step, or that it is pending."""
        if not traceable():
            return {"pending": False, "memory": None, "why": NEEDS_TORCH}
        future = self._asked((architecture, call))
        try:
            return {"pending": False, **future.result(self.wait)}
        except (Late, CancelledError):
            return {"pending": True, "memory": None}
        except UserError as error:
            return {"pending": False, "memory": None, "why": str(error)}

    def start(self) -> None:
        """Load torch in the worker, so that the first question does not wait for it."""
        if traceable():
            self._pool().submit(ready)

    def close(self) -> None:
        """End the worker."""
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)
            self._workers = None

    def _asked(self, asked: Asked) -> Future[dict[str, Any]]:
        known = self._answers.get(asked)
        if known is not None and not known.cancelled():
            return known
        for other, waiting in list(self._answers.items()):
            if waiting.cancel():  # it has not begun
                del self._answers[other]
        while len(self._answers) >= KEPT:
            del self._answers[next(iter(self._answers))]
        architecture, call = asked
        future = self._answers[asked] = self._pool().submit(traced, architecture.plain(), call)
        return future

    def _pool(self) -> ProcessPoolExecutor:
        if self._workers is None:
            self._workers = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_leave_interrupts)
        return self._workers


def traced(described: dict[str, Any], call: PricedCall) -> dict[str, Any]:
    """The bytes of a training step at its peak, by purpose, and how many accelerators hold it."""
    start = time.perf_counter()
    sheet = sheet_of(Architecture.parse(described), call)
    memory = {**asdict(sheet.memory), "total": sheet.memory.total, "saved": sheet.activations.saved + sheet.activations.loss}
    devices = {name: -(-sheet.memory.total // hardware_of(name).usable_memory) for name in call.on}
    return {"memory": {**memory, "moment": sheet.peak.at}, "devices": devices, "seconds": time.perf_counter() - start}


def ready() -> None:
    """Import what tracing needs."""
    import anyformer.costs.saved.tracing  # noqa: F401


def _leave_interrupts() -> None:
    """Ctrl-C ends the server, which ends the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
