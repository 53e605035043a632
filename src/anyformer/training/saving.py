"""Checkpoints written while training goes on: a copy of the weights, and a thread that writes it.

Training waits for the copy, and for the write before it if that is not done yet; so there is one copy at most. Nothing reads a
checkpoint before it is whole (`checkpoint.write`), and the copy is the state of one step, so that the files are those of a
write that training waits for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from anyformer.checkpoint import Take, copied, shared
from anyformer.costs import scaled
from anyformer.describe import UserError
from anyformer.files import PlaceError
from anyformer.training import budget
from anyformer.training.invocation import command
from anyformer.training.summary import Waiting

T = TypeVar("T")


class UnsavedError(UserError):
    """A run could not write to the disk; it can be continued from its last checkpoint."""

    exit_code = 1


@dataclass(frozen=True)
class Written:
    """A checkpoint of so many `bytes`, written in so many `seconds`; `copying`: those in which it was copied to a store, and
    `problem`: why it was not."""

    step: int
    bytes: int = 0
    seconds: float = 0.0
    copying: float | None = None
    problem: str | None = None


@dataclass(frozen=True)
class SaveCost:
    """What a checkpoint cost: what was `written`, and the seconds that training `waited` for it."""

    written: Written
    waited: float

    def __str__(self) -> str:
        copied = "" if self.written.copying is None else f", copied in {self.written.copying:.2g} s"
        return (
            f"checkpoint of step {self.written.step}: {scaled(self.written.bytes)}B written in {self.written.seconds:.2g} s"
            f"{copied}; training waited {self.waited:.2g} s"
        )

    @property
    def figures(self) -> dict[str, float]:
        """Plain numbers, for a line of the metrics."""
        copied = {} if self.written.copying is None else {"copying": round(self.written.copying, 4)}
        found = {"step": self.written.step, "bytes": self.written.bytes, "seconds": round(self.written.seconds, 4)}
        return found | copied | {"waited": round(self.waited, 4)}


Write = Callable[[], Written]


@dataclass
class Saver:
    """A context manager that waits for its writer at the end, and raises its error.

    `background`: whether there is memory for a copy; else training waits for every write. `begun`: the step of the newest
    checkpoint that was begun; `written`: of the newest one that is whole; `waited`: seconds that training waited; `bytes` and
    `seconds`: of all that was written.
    """

    background: bool
    begun: int
    written: int = field(init=False)
    saves: int = field(default=0, init=False)
    waited: float = field(default=0.0, init=False)
    bytes: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)
    _written: deque[Written] = field(default_factory=deque, init=False)
    _waits: dict[int, float] = field(default_factory=dict, init=False)
    """Seconds that training waited for the save of a step."""
    _writer: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "checkpoint"), init=False)
    _writing: Future[None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.written = self.begun

    def __enter__(self) -> Self:
        # Its thread is there before there is something to write: one that a Ctrl-C finds starting is waited for by nobody.
        self._writer.submit(int).result()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._waiting():
            try:
                self._settle()
            except KeyboardInterrupt:
                # The second Ctrl-C while the first is obeyed: what is half written is finished, and only then does it end.
                # Not by joining the thread, which Python takes for ended once a join was interrupted (bpo-45274).
                self._settle()
                raise
            finally:
                self._writer.shutdown()
        if error is None:
            self.check()

    def unsaved(self, error: PlaceError, directory: Path) -> UnsavedError:
        """The error of a disk that could not be written, with what is left and how the run goes on."""
        older = f"the checkpoint of step {self.written} is whole" if self.written else "there was no checkpoint before it"
        more = command("train", "--resume", directory)
        return UnsavedError(f"{error}\nThe unfinished file is deleted, and {older}. Continue with: {more}")

    def save(self, step: int, take: Callable[[Take], Write]) -> None:
        """Write the checkpoint of a step. `take`: takes the tensors as they are now, and returns what writes them.

        Raises the error of the write before it.
        """

        def written() -> None:
            found = write()
            self.written = step
            self.bytes, self.seconds = self.bytes + found.bytes, self.seconds + found.seconds
            self._written.append(found)

        before = self.waited
        with self._waiting():
            self._finish()
            write = take(copied if self.background else shared)
            self.begun, self.saves = step, self.saves + 1
            self._writing = self._writer.submit(written)
            if not self.background:
                self._finish()
        self._waits[step] = self.waited - before

    def then(self, act: Callable[[], T]) -> T:
        """Do something with the newest checkpoint, once it is written. Raises the error of its write."""
        with self._waiting():
            self._finish()
            return act()

    def check(self) -> None:
        """Raise the error of a write that failed, without waiting for one that goes on."""
        if self._writing is not None and self._writing.done():
            done, self._writing = self._writing, None
            done.result()

    def costs(self) -> list[SaveCost]:
        """What each checkpoint cost that was written since this was asked last."""
        found = [self._written.popleft() for _ in range(len(self._written))]
        return [SaveCost(written, self._waits.pop(written.step)) for written in found]

    def waiting(self, seconds: float) -> Waiting:
        """What checkpoints cost of so many seconds of training."""
        return Waiting(self.waited, seconds, self.saves, self.bytes, self.seconds)

    @property
    def failed(self) -> bool:
        """Whether a write failed, of which `check` raises the error."""
        return self._writing is not None and self._writing.done() and self._writing.exception() is not None

    def back(self, step: int) -> None:
        """Forget the checkpoints after a step, to which training goes back."""
        self.begun = self.written = step

    def _finish(self) -> None:
        """Wait for the writer, and raise its error."""
        self._settle()
        self.check()

    def _settle(self) -> None:
        """Wait for the writer, whatever becomes of it."""
        if self._writing is not None:
            wait([self._writing])

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        before = budget.clock()
        try:
            yield
        finally:
            self.waited += budget.clock() - before
