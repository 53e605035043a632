"""How long a process waits for the others: time around the calls of torch.distributed that start an exchange or wait for it.

On a CPU it is the clock of the calling thread: from a call to its end nothing else is computed there. On a GPU it is the time
of the stream that a call was made on, between two CUDA events, which `seconds` reads once they are over; an exchange beside
which another stream computes counts all the same. Waits within compiled functions are not seen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import AsyncCollectiveTensor

clock: Callable[[], float] = time.perf_counter
"""Seconds; tests replace it."""

_thread = threading.local()

STARTING = (
    "broadcast", "allreduce", "allreduce_coalesced", "reduce", "allgather", "allgather_coalesced", "all_gather_single",
    "all_gather_single_coalesced", "_allgather_base", "allgather_into_tensor_coalesced", "gather", "scatter", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_single_coalesced", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced",
    "alltoall", "all_to_all_single", "alltoall_base", "send", "recv", "recv_anysource", "barrier", "_end_coalescing",
)  # fmt: skip
"""Methods of a process group that start an exchange, in every version of torch that has them."""


@dataclass
class ExchangeClock:
    """Seconds of exchanges so far in this process."""

    device: torch.device
    _over: float = field(default=0.0, init=False)
    _open: list[tuple[torch.cuda.Event, torch.cuda.Event]] = field(default_factory=list, init=False)

    @property
    def seconds(self) -> float:
        """So far; on a GPU this waits for the exchanges that were started."""
        while self._open:
            began, ended = self._open.pop()
            ended.synchronize()
            self._over += began.elapsed_time(ended) / 1000
        return self._over

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, whose time is counted."""
        counted = self._on_stream if self.device.type == "cuda" else self._on_thread

        @wraps(call)
        def timed(*arguments: Any, **named: Any) -> Any:
            with nullcontext() if getattr(_thread, "beside", False) else counted():
                return call(*arguments, **named)

        return timed

    @contextmanager
    def _on_thread(self) -> Iterator[None]:
        began = clock()
        try:
            yield
        finally:
            self._over += clock() - began

    @contextmanager
    def _on_stream(self) -> Iterator[None]:
        began, ended = _event(), _event()
        began.record()
        try:
            yield
        finally:
            ended.record()
            self._open.append((began, ended))


def _event() -> torch.cuda.Event:
    made: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return made


@contextmanager
def beside_training() -> Iterator[None]:
    """Within, exchanges of this thread take no time: training goes on in another one."""
    _thread.beside = True
    try:
        yield
    finally:
        _thread.beside = False


@contextmanager
def exchanges_timed(device: torch.device) -> Iterator[ExchangeClock]:
    """Within, exchanges of this process are timed, whoever makes them: FSDP and pipelines are torch's own."""
    timer = ExchangeClock(device)
    starting: list[tuple[type, str]] = [(dist.ProcessGroup, name) for name in STARTING if name in vars(dist.ProcessGroup)]
    waiting: list[tuple[type, str]] = [
        (dist.Work, "wait"),
        (AsyncCollectiveTensor, "wait"),
        (AsyncCollectiveTensor, "trigger_wait"),
    ]
    with ExitStack() as stack:
        for owner, name in (*starting, *waiting):
            before = vars(owner)[name]  # what the class gives is a function that would bind to nothing
            setattr(owner, name, timer.around(getattr(owner, name)))
            stack.callback(setattr, owner, name, before)
        yield timer
