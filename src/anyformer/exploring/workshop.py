"""Work that takes long or needs torch, in a process of its own, so that the page's other questions do not wait for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as Late
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

from anyformer.costs.traceable import traceable
from anyformer.describe import UserError

WAIT = 3.0
"""Seconds after which an answer is `pending`, and is to be asked for again."""
KEPT = 64
"""Answers that are kept."""
Answer = dict[str, Any]


class Workshop:
    """One worker that answers one question after the other; what nobody waits for any longer makes room for what is newer.

    `needs`: why it cannot work where torch is not installed.
    """

    def __init__(self, needs: str, wait: float = WAIT) -> None:
        self.needs, self.wait = needs, wait
        self._answers: dict[Hashable, Future[Answer]] = {}
        self._workers: ProcessPoolExecutor | None = None
        self._alive: Connection | None = None

    def ask(self, key: Hashable, work: Callable[..., Answer], *given: Any) -> Answer:
        """What `work(*given)` gives, under a `key` that says all of it; `pending`: not yet; `why`: why it never is."""
        if not traceable():
            return {"pending": False, "why": self.needs}
        future = self._asked(key, work, given)
        try:
            return {"pending": False, **future.result(self.wait)}
        except (Late, CancelledError):
            return {"pending": True}
        except BrokenProcessPool:
            self.close()
            return {"pending": False, "why": "the process that works this out ended, perhaps for lack of memory: ask for less"}

    def start(self, ready: Callable[[], Answer]) -> None:
        """Load in the worker what the first question needs."""
        if traceable():
            self._pool().submit(told, ready, ())

    def close(self) -> None:
        """End the worker, whatever it is at, and forget what it was asked."""
        if self._alive is not None:
            self._alive.close()
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)
        self._workers = self._alive = None
        self._answers.clear()

    def _asked(self, key: Hashable, work: Callable[..., Answer], given: tuple[Any, ...]) -> Future[Answer]:
        known = self._answers.get(key)
        if known is not None and not known.cancelled():
            return known
        for other, waiting in list(self._answers.items()):
            if waiting.cancel():  # it has not begun
                del self._answers[other]
        while len(self._answers) >= KEPT:
            del self._answers[next(iter(self._answers))]
        future = self._answers[key] = self._pool().submit(told, work, given)
        return future

    def _pool(self) -> ProcessPoolExecutor:
        if self._workers is None:
            context = get_context("spawn")
            asked, self._alive = context.Pipe(duplex=False)
            self._workers = ProcessPoolExecutor(1, mp_context=context, initializer=_begin, initargs=(asked,))
        return self._workers


def told(work: Callable[..., Answer], given: tuple[Any, ...]) -> Answer:
    """What work gives, or why it refuses: an error of ours does not always pass from process to process."""
    try:
        return work(*given)
    except UserError as error:
        return {"why": str(error)}


def _begin(asked: Connection) -> None:
    """Leave Ctrl-C to the server, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(asked,), daemon=True).start()


def _end_with(asked: Connection) -> None:
    """End this process once the other end of a pipe is closed: nothing is ever sent."""
    with suppress(EOFError, OSError):
        asked.recv()
    os._exit(0)
