"""One logger of a run, which follows the metrics in a thread of its own."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from anyformer.describe import read_json
from anyformer.files import write_text
from anyformer.training.loggers.logger import Ending, Logger, Start, Writer
from anyformer.training.loggers.scalars import scalars, words

METRICS = "metrics.jsonl"
FOLDER = "loggers"
"""The folder, in a run's directory, of what each logger is called by its place and how far it was told."""
EVERY = 5.0
"""Seconds after which what a logger was told is written out."""
BEHIND = 100_000
"""Messages that may wait for a logger; with more it is given up."""

Act = Callable[[Writer], None]


@dataclass(frozen=True)
class Message:
    """Something for the writer to do, after which it was told so many lines; None: as many as before."""

    act: Act
    lines: int | None = None
    back: bool = False
    last: bool = False


@dataclass
class Follower:
    """A logger and its thread. Nothing here waits for the logger or raises its errors.

    `rows`: the lines of the metrics when this process begins; `tokens`: of an update; `said`: lines for the user, each with
    whether it is a warning.
    """

    logger: Logger
    start: Start
    rows: Sequence[Mapping[str, Any]]
    tokens: int
    said: queue.SimpleQueue[tuple[str, bool]] = field(default_factory=queue.SimpleQueue, init=False)
    over: Event = field(default_factory=Event, init=False)
    """Set once the thread has ended, or the logger is given up."""
    _messages: queue.SimpleQueue[Message] = field(default_factory=queue.SimpleQueue, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _lines: int = field(init=False)
    """How many lines of the metrics the logger was told and keeps."""
    _back: list[int] = field(default_factory=list, init=False)
    """Of every rewind that the logger was not told yet: the lines that stand after it."""

    def __post_init__(self) -> None:
        kept = _read(self._file)
        lines = kept.pop("lines", 0)
        self._lines = min(lines, len(self.rows)) if isinstance(lines, int) else 0
        self.start = replace(self.start, ids={name: str(value) for name, value in kept.items()})

    @property
    def behind(self) -> bool:
        """Whether there are lines that the logger was never told."""
        return self._lines < len(self.rows)

    def begin(self) -> None:
        """Start the thread, which ends with the process, whatever the logger does."""
        with self._lock:
            self._keep()  # lines that are gone from the metrics come again, perhaps as others, even if the logger fails now
        Thread(target=self._follow, name=f"logger-{self.logger.kind}", daemon=True).start()

    def told(self, lines: int, row: Mapping[str, Any]) -> None:
        """A line was added to the metrics, which have so many now."""
        self._put(Message(lambda writer: tell(writer, row, self.tokens), lines))

    def rewound(self, lines: int, step: int) -> None:
        """The lines of updates after `step` were taken out of the metrics, which have so many now."""
        with self._lock:
            self._back.append(lines)
            self._keep()
        self._put(Message(lambda writer: writer.rewind(step), lines, back=True))

    def finished(self, step: int, values: Mapping[str, float], picture: Path) -> None:
        """The figures of the summary, and the picture."""

        def act(writer: Writer) -> None:
            writer.scalars(step, values)
            if picture.is_file():
                writer.picture(step, f"summary/{picture.stem}", picture)

        self._put(Message(act))

    def end(self, ending: Ending) -> None:
        """Close the writer, once it was told everything."""
        self._put(Message(lambda writer: writer.close(ending), last=True))

    def give_up(self, reason: str) -> None:
        """Stop telling, with one warning."""
        if not self.over.is_set():
            self.over.set()
            rest = f"{METRICS} is whole, and tells it the rest when the run is resumed"
            self.said.put((f"{self.logger.kind} stops: {reason}. {rest}", True))

    def _put(self, message: Message) -> None:
        if self.over.is_set():
            return
        self._messages.put(message)
        if self._messages.qsize() > BEHIND:
            self.give_up(f"{BEHIND:,} messages wait for it")

    def _follow(self) -> None:
        try:
            writer = self._begun()
            for lines, row in enumerate(self.rows[self._lines :], self._lines + 1):
                tell(writer, row, self.tokens)
                self._note(lines)
            self._work(writer)
        except BaseException as error:  # whatever a library raises in this thread, training goes on
            self.give_up(" ".join(f"{type(error).__name__}: {error}".split()).rstrip("."))
        finally:
            self.over.set()

    def _begun(self) -> Writer:
        """The writer, and the lines that it was told already: all of each step, or none."""
        self._lines = whole(self.rows, self._lines)
        step = self.rows[self._lines - 1]["step"] if self._lines else 0
        writer = self.logger.begin(replace(self.start, step=step))
        with self._lock:
            self.start = replace(self.start, ids=writer.ids)
            if writer.new:
                self._lines = 0
            self._keep()
        self.said.put((f"{self.logger.kind}: {writer.where}", False))
        return writer

    def _work(self, writer: Writer) -> None:
        written, changed = monotonic(), True
        while not self.over.is_set():
            try:
                message = self._messages.get(timeout=EVERY)
            except queue.Empty:
                message = None
            ends = message is not None and message.last
            if changed and (ends or message is None or monotonic() - written > EVERY):
                writer.flush()
                with self._lock:
                    self._keep()
                written, changed = monotonic(), False
            if message is not None:
                message.act(writer)
                self._note(message.lines, back=message.back)
                changed = True
            if ends:
                return

    def _note(self, lines: int | None, *, back: bool = False) -> None:
        with self._lock:
            self._lines = self._lines if lines is None else lines
            if back:
                self._back.pop(0)

    def _keep(self) -> None:
        """Write down how far the logger was told, with the lock held. Lines that a rewind took may come again as others."""
        try:
            self._file.parent.mkdir(exist_ok=True)
            facts = {**self.start.ids, "lines": min([self._lines, *self._back])}
            write_text(self._file, json.dumps(facts, indent=1) + "\n")
        except (OSError, ValueError) as error:
            self.give_up(str(error))

    @property
    def _file(self) -> Path:
        return self.start.directory / FOLDER / f"{self.logger.kind}.json"


def tell(writer: Writer, row: Mapping[str, Any], tokens: int) -> None:
    """Give a line of the metrics to a writer."""
    if values := scalars(row, tokens):
        writer.scalars(row["step"], values)
    else:
        writer.note(row["step"], row["kind"], words(row))


def whole(rows: Sequence[Mapping[str, Any]], lines: int) -> int:
    """The most of the first `lines` lines that are followed by another step, or by nothing."""
    while 0 < lines < len(rows) and rows[lines]["step"] <= rows[lines - 1]["step"]:
        lines -= 1
    return lines


def _read(path: Path) -> dict[str, Any]:
    try:
        facts = read_json(path)
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}
