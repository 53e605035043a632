"""`LoopPost`: what a thread has for the readers of a loop, which is woken once for all of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from anyformer.serving.served_text import TextEvent


class LoopPost:
    """Brings events of one thread into queues of `loop`. A step has an event for every text, and to wake a loop for each takes
    as long as to write it out."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held: deque[tuple[asyncio.Queue[TextEvent], TextEvent]] = deque()
        self._called = False

    def put(self, queue: asyncio.Queue[TextEvent], event: TextEvent) -> None:
        """Is called in the thread, and does not wait."""
        self._held.append((queue, event))
        if not self._called:
            self._called = True
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody reads any more
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._called = False  # before the first is taken: one that comes from now on calls again
        while self._held:
            queue, event = self._held.popleft()
            queue.put_nowait(event)
