"""`ServingWorker`: the one thread that computes. Requests come to it, and events go from it, to and from any other."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from queue import Empty, SimpleQueue
from threading import Event, RLock, Thread
from typing import Any

from anyformer.describe import UserError
from anyformer.serving.metrics import ServingMetrics
from anyformer.serving.request import ServedRequest
from anyformer.serving.scheduler import Scheduler
from anyformer.serving.served_text import TextEvent
from anyformer.training.allocator import give_back

Sink = Callable[[TextEvent], None]
"""Is called in the worker's thread, and must not wait."""
GIVING_BACK = 5.0
"""Seconds after which what was freed goes back to the system: it takes milliseconds."""
FAILED = "the server failed while it computed this text; its terminal says why"


class StoppingError(UserError):
    """The server takes no more requests."""


@dataclass(frozen=True)
class Submission:
    """A request and who is told of it."""

    number: int
    request: ServedRequest
    sink: Sink


@dataclass(frozen=True)
class WorkerCall:
    """Something else that is computed between two steps: `work`, and who is given its result or the error."""

    work: Callable[[], Any]
    done: Callable[[Any, Exception | None], None]


class ServingWorker:
    """Runs a `Scheduler` in a thread of its own until it is stopped. `model` work of other kinds comes by `call`."""

    def __init__(self, scheduler: Scheduler, metrics: ServingMetrics) -> None:
        self.scheduler, self.metrics = scheduler, metrics
        self._inbox: SimpleQueue[Submission | WorkerCall | int | None] = SimpleQueue()
        self._sinks: dict[int, Sink] = {}
        self._numbers = count()
        self._lock = RLock()  # a signal may come while its own thread holds it
        self._coming = 0
        """Requests that were taken and that the scheduler does not know yet."""
        self._stopping, self._end = False, Event()
        self._thread = Thread(target=self._run, name="anyformer-serve", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def stopping(self) -> bool:
        return self._stopping

    @property
    def alive(self) -> bool:
        """Whether it computes, or would."""
        return self._thread.is_alive()

    def submit(self, requests: list[tuple[ServedRequest, Sink]]) -> list[int]:
        """Let requests wait, all or none of them; their numbers. Refuses what cannot be done, before any work."""
        for request, _ in requests:
            self.scheduler.states.check(request)
        with self._lock:
            if self._stopping:
                raise StoppingError("the server stops and takes no more requests: ask again when it has started anew")
            self.scheduler.check_queue(self._coming + len(requests))
            self._coming += len(requests)
        made = [Submission(next(self._numbers), *each) for each in requests]
        for each in made:
            self.metrics.came(each.number, len(each.request.tokens))
            self._inbox.put(each)
        return [each.number for each in made]

    def cancel(self, number: int) -> None:
        """Forget a text before the next step."""
        self._inbox.put(number)

    def call(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        """Let something be computed between two steps."""
        if self._stopping:
            raise StoppingError("the server stops and takes no more requests: ask again when it has started anew")
        self._inbox.put(WorkerCall(work, done))

    def drain(self) -> None:
        """Take no more requests; the thread ends when all texts have."""
        with self._lock:
            self._stopping = True
        self._inbox.put(None)

    def end(self) -> None:
        """End all texts as they are, and the thread."""
        self.drain()
        self._end.set()
        self._inbox.put(None)

    def close(self, seconds: float | None = None) -> None:
        """Wait so long for all texts to end; then end them."""
        self.drain()
        self._thread.join(seconds)
        self.end()
        self._thread.join()

    def _run(self) -> None:
        given_back = time.monotonic()
        while True:
            self._take()
            if self._end.is_set():
                self._tell(self.scheduler.stop())
                return
            if self.scheduler.idle:
                self.metrics.saw(self.scheduler)
                if self._stopping and self._inbox.empty():
                    return
                continue
            try:
                self._tell(self.scheduler.events())
            except Exception:  # whatever a model does, the server goes on
                traceback.print_exc()
                self._fail()
            self.metrics.saw(self.scheduler)
            if time.monotonic() >= given_back + GIVING_BACK:
                give_back()
                given_back = time.monotonic()

    def _take(self) -> None:
        """All that has come; without anything to do, wait for it."""
        waits = self.scheduler.idle and not self._stopping
        while True:
            try:
                self._do(self._inbox.get(block=waits))
            except Empty:
                return
            waits = False

    def _do(self, message: Submission | WorkerCall | int | None) -> None:
        if isinstance(message, Submission):
            with self._lock:
                self._coming -= 1
                self._sinks[message.number] = message.sink
            try:
                self.scheduler.submit(message.number, message.request)
            except UserError as error:
                self._tell([TextEvent(message.number, error=str(error))])
        elif isinstance(message, int):
            self.scheduler.cancel(message)
            if self._sinks.pop(message, None) is not None:
                self.metrics.ended(message, "cancelled")
        elif isinstance(message, WorkerCall):
            result, problem = None, None
            try:
                result = message.work()
            except Exception as error:  # who asked is told
                problem = error
                if not isinstance(error, UserError):
                    traceback.print_exc()
            message.done(result, problem)

    def _tell(self, events: Iterable[TextEvent]) -> None:
        for event in events:
            self.metrics.told(event)
            sink = self._sinks.get(event.number)
            if event.last:
                self._sinks.pop(event.number, None)
            if sink is not None:
                sink(event)

    def _fail(self) -> None:
        """End all texts with an error: what a step that failed has left of their states is unknown."""
        for number in list(self._sinks):
            self.scheduler.cancel(number)
            self._tell([TextEvent(number, error=FAILED, status=500)])
