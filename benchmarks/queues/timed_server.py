"""`anyformer serve` that writes a line for each of its steps: python -m benchmarks.queues.timed_server FILE serve DIRECTORY ...

The steps are those of the server's own thread, while requests come and answers go: what a scheduler's call takes from outside,
with no line of it changed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from benchmarks.queues.server import CHUNK

from anyformer.cli import main
from anyformer.serving.scheduler import Scheduler
from anyformer.serving.served_text import ServedText, TextEvent


class ServedStep(NamedTuple):
    """Seconds `between` the step before and this one, -1 where nothing was to be done; `advancing`: of a token of `texts`,
    computed as for `alike` side by side (see `PaddedPlaces`) with `keys` of the longest, and of telling it; `reading`: of
    `chunks` of prompts, [tokens, tokens before them, whether they are the last]. `behind`: whether the step before read any;
    `at`: seconds at which it began, by the clock of all processes of the machine."""

    between: float
    advancing: float
    texts: int
    alike: int
    keys: int
    reading: float
    chunks: list[tuple[int, int, bool]]
    behind: bool = False
    at: float = 0.0

    @property
    def seconds(self) -> float:
        """All of it, with what was before it where something was to be done."""
        return max(0.0, self.between) + self.advancing + self.reading


class StepWriter:
    """Times both halves of every step of a scheduler."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "w", buffering=1)  # noqa: SIM115 (as long as the process)
        self._ended: float | None = None
        self._read = False  # whether the step before read a prompt
        self._past: dict[int, int] = {}
        self._begun = 0.0
        self._half: tuple[float, int, int, int] = (-1.0, 0, 0, 0)

    def advancing(self, advance: Callable[[Scheduler], Iterator[TextEvent]], scheduler: Scheduler) -> list[TextEvent]:
        states: Any = scheduler.states
        states = states.base  # of the model itself: no adapter is served
        numbers = list(scheduler._running)
        rows = 1 << max((states._places[number] for number in numbers), default=0).bit_length()
        alike = max(len(numbers), rows // 2 + 1 if rows > 1 else 1) if numbers else 0
        keys = max(states._rows.spans, default=0) + 1
        self._begun = time.perf_counter()
        between = -1.0 if self._ended is None else self._begun - self._ended
        self._half = between, len(numbers), alike, keys
        return [*advance(scheduler)]

    def reading(self, read: Callable[[Scheduler], Iterator[TextEvent]], scheduler: Scheduler) -> list[TextEvent]:
        waiting = [*scheduler._waiting.values()]
        texts = [*([] if scheduler._reading is None else [scheduler._reading[0]]), *waiting]
        begin = time.perf_counter()
        found = [*read(scheduler)]
        ended = time.perf_counter()
        unread = None if scheduler._reading is None else scheduler._reading[0].number
        chunks = [self._chunk(text, whole=text.number != unread) for text in texts if text.number not in scheduler._waiting]
        between, *texts_and_keys = self._half
        step = ServedStep(between, begin - self._begun, *texts_and_keys, ended - begin, chunks, self._read, self._begun)
        self._read = bool(chunks)
        self._file.write(json.dumps(step) + "\n")
        self._ended = None if scheduler.idle else time.perf_counter()
        return found

    def _chunk(self, text: ServedText, *, whole: bool) -> tuple[int, int, bool]:
        """What was read of a prompt in this step; `whole`: to its end."""
        past, length = self._past.pop(text.number, 0), len(text.request.tokens)
        tokens = length - past if whole else CHUNK
        if not whole:
            self._past[text.number] = past + tokens
        return tokens, past, whole


def watch(path: str) -> None:
    """From now on schedulers write their steps."""
    writer, advance, read = StepWriter(path), Scheduler._advance, Scheduler._read
    Scheduler._advance = lambda self: iter(writer.advancing(advance, self))  # type: ignore[method-assign]
    Scheduler._read = lambda self: iter(writer.reading(read, self))  # type: ignore[method-assign]


if __name__ == "__main__":
    watch(sys.argv.pop(1))
    main()
