"""Ctrl-C and SIGTERM: raised at once where nothing can be lost, delayed while something must be finished."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Timer
from typing import Any

from anyformer.mesh import rank

_SOON = 0.05
"""Seconds within which Python has cleared something up."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C or SIGTERM ended the work. `exit_code` is what a shell expects: 130 or 143. `kept`: the step of the newest whole
    checkpoint, where updates were made and this could not save them."""

    kept: int | None = None

    def __init__(self, number: int, doing: str = "") -> None:
        super().__init__(f"stopped while {doing}" if doing else "stopped")
        self.number, self.exit_code = number, 128 + number
        self.where = doing.partition(";")[0]


@dataclass
class Stop:
    """The current work (`doing`), and the signal to stop, if any: the first is obeyed in seconds, the second at once."""

    doing: str = "starting"
    _signal: int | None = field(default=None, init=False)
    _held: str = field(default="", init=False)

    def ask(self, number: int) -> None:
        """Stop now, or once the work that must be finished is done."""
        self._signal = number
        _say(f"{self._held}, then stopping" if self._held else f"stopping ({self.doing})", number)
        self.check()

    @property
    def asked(self) -> int | None:
        """The number of the signal that came, if any."""
        return self._signal

    def clear(self) -> None:
        """Forget the signal: saving and ending must not be interrupted by it again."""
        self._signal = None

    def check(self) -> None:
        """Raise `Stopped` if a signal came and nothing must be finished first."""
        if self._signal is not None and not self._held:
            raise Stopped(self._signal, self.doing)

    @contextmanager
    def held(self, doing: str) -> Iterator[None]:
        """Work that must be finished; a signal meanwhile takes effect after it."""
        with self.window(doing) as hold:
            hold()
            yield

    @contextmanager
    def held_together(self, doing: str) -> Iterator[None]:
        """As `held`, in all processes of a run. An error, which ends them, is told before a signal is obeyed: their launcher
        sends SIGTERM as soon as one of them has ended."""
        try:
            with self.held(doing):
                yield
        except Exception:
            self._held = "telling what failed"
            raise

    @contextmanager
    def window(self, doing: str) -> Iterator[Callable[[], None]]:
        """Yield a function: from its call to the end of the window the work must be finished."""

        def hold() -> None:
            self.check()
            self._held = doing

        before = self._held
        try:
            yield hold
        finally:
            self._held = before
        self.check()


@contextmanager
def listening(*, launched: bool = False) -> Iterator[Stop]:
    """A `Stop` that receives Ctrl-C and SIGTERM inside this context. After the first signal the usual handling is back.

    `launched`: the process belongs to a launcher, which hands on the SIGTERM that a cluster sends to both of them: the second
    one says nothing new, and must not interrupt the saving that the first began.
    """
    stop = Stop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def obeying() -> None:
        back()
        if launched:
            signal.signal(signal.SIGTERM, lambda number, frame: None)

    def heard(number: int, frame: object) -> None:
        obeying()
        stop.ask(number)

    def again(number: int, frame: object) -> None:
        obeying()
        stop.check()

    try:
        for number in before:
            signal.signal(number, heard)
    except ValueError:  # signals can be caught in the main thread only; elsewhere the caller's handling stays
        yield stop
        return
    try:
        with _raised_again(lambda: [signal.signal(number, again) for number in before]):
            yield stop
    finally:
        back()


@contextmanager
def _raised_again(listen: Callable[[], object]) -> Iterator[None]:
    """Where a signal arrives while Python clears something up (`__del__`, the callback of a weak reference), what its handler
    raises is dropped there, with a trace on standard error. Then the signal comes once more, without the trace."""
    before, timers = sys.unraisablehook, list[Timer]()

    def dropped(unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, Stopped):
            listen()
            timers.append(Timer(_SOON, os.kill, (os.getpid(), unraisable.exc_value.number)))
            timers[-1].start()
        else:
            before(unraisable)

    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in timers:
            timer.cancel()


def _say(text: str, number: int) -> None:
    """One line on standard error, of the first process of several, by the system call itself, since a signal may interrupt any
    other write."""
    if rank() == 0:
        line = f"{text}; Ctrl-C again ends at once" if number == signal.SIGINT else f"{signal.Signals(number).name}: {text}"
        os.write(2, f"\n{line}\n".encode())
