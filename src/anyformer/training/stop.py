"""Ctrl-C and a polite kill as one value: raised at once where nothing can be lost, held back where something could be."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class Stopped(KeyboardInterrupt):
    """Ctrl-C or SIGTERM ended the work. `exit_code` is what a shell expects: 130 or 143."""

    def __init__(self, number: int, doing: str = "") -> None:
        super().__init__(f"stopped while {doing}" if doing else "stopped")
        self.exit_code = 128 + number


@dataclass
class Stop:
    """What goes on (`doing`), and whether an end was asked for: the first signal is obeyed in seconds, the second at once."""

    doing: str = "starting"
    _asked: int | None = field(default=None, init=False)
    _held: str = field(default="", init=False)

    def ask(self, number: int) -> None:
        """An end is wanted: now, or once what is held is done."""
        self._asked = number
        _say(f"{self._held}, then stopping" if self._held else f"stopping ({self.doing})")
        self.check()

    def clear(self) -> None:
        """The end is under way: nothing that it does is to be broken off for the same reason."""
        self._asked = None

    def check(self) -> None:
        """End here if an end was asked for and nothing is held."""
        if self._asked is not None and not self._held:
            raise Stopped(self._asked, self.doing)

    @contextmanager
    def held(self, doing: str) -> Iterator[None]:
        """What must be done whole; an end asked for meanwhile comes after it."""
        with self.window(doing) as hold:
            hold()
            yield

    @contextmanager
    def window(self, doing: str) -> Iterator[Callable[[], None]]:
        """Gives a function from whose call on, to the end of the window, the work must be done whole."""

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
def listening() -> Iterator[Stop]:
    """A `Stop` that hears Ctrl-C and SIGTERM while this lasts. After the first of them the usual handling is back."""
    stop = Stop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def heard(number: int, frame: object) -> None:
        back()
        stop.ask(number)

    try:
        for number in before:
            signal.signal(number, heard)
    except ValueError:  # signals can be caught in the main thread only; elsewhere the caller's own handling stays
        yield stop
        return
    try:
        yield stop
    finally:
        back()


def _say(text: str) -> None:
    """One line on standard error, by the system's own call, since a signal may have come in the middle of any other."""
    os.write(2, f"\n{text}; Ctrl-C again ends at once\n".encode())
