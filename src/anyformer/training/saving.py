"""Checkpoints written while training goes on: a copy of the weights, and a thread that writes it.

Training waits for the copy, and for the write before it if that is not done yet; so there is one copy at most. Nothing reads a
checkpoint before it is whole (`checkpoint.write`), and the copy is the state of one step, so that the files are those of a
write that training waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from anyformer.checkpoint import Take, copied, shared
from anyformer.describe import UserError
from anyformer.training import budget

Write = Callable[[], None]
T = TypeVar("T")


class UnsavedError(UserError):
    """A run could not write to the disk; it can be continued from its last checkpoint."""

    exit_code = 1


@dataclass
class Saver:
    """A context manager that waits for its writer at the end, and raises its error.

    `background`: whether there is memory for a copy; else training waits for each write. `begun`: the step of the newest
    checkpoint that was begun; `written`: of the newest one that is whole; `waited`: seconds that training waited.
    """

    background: bool
    begun: int
    written: int = field(init=False)
    saves: int = field(default=0, init=False)
    waited: float = field(default=0.0, init=False)
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

    def save(self, step: int, take: Callable[[Take], Write]) -> None:
        """Write the checkpoint of a step. `take`: takes the tensors as they are now, and returns what writes them.

        Raises the error of the write before it.
        """

        def written() -> None:
            write()
            self.written = step

        with self._waiting():
            self._finish()
            write = take(copied if self.background else shared)
            self.begun, self.saves = step, self.saves + 1
            self._writing = self._writer.submit(written)
            if not self.background:
                self._finish()

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
