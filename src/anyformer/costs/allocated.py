"""What a call really allocates: the most above where it began, by the device's own books."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch


def peak_above(call: Callable[[], object], device: torch.device) -> int:
    """The most bytes of tensors alive during `call` beyond those alive before it.

    On a CUDA device by its allocator; elsewhere from the profiler's memory events, which every allocation of a tensor makes.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    # The profiler announces itself on stderr otherwise.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        call()
    assert profile.kineto_results is not None
    events = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    live = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        most = max(most, live)
    return most
