"""Memory that a call really allocates at once, by the device's own accounts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@dataclass
class Allocated:
    """`most`: bytes of tensors alive at once beyond those alive before; known when the watch ends."""

    most: int = 0


@contextmanager
def watching_allocations(device: torch.device) -> Iterator[Allocated]:
    """Watch allocations: on a CUDA device by its allocator, elsewhere by the profiler's event for every tensor."""
    allocated = Allocated()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield allocated
        torch.cuda.synchronize(device)
        allocated.most = torch.cuda.max_memory_allocated(device) - before
        return
    # Without this level the profiler writes to stderr.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        yield allocated
    assert profile.kineto_results is not None
    events = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    live = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        allocated.most = max(allocated.most, live)


def peak_above(call: Callable[[], object], device: torch.device) -> int:
    """The most bytes of tensors alive during `call` beyond those alive before it."""
    with watching_allocations(device) as allocated:
        call()
    return allocated.most
