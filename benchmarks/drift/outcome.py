"""How a value of a key may end."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from benchmarks.drift.keys import Path as Keys

from anyformer.describe import UserError

ENDED = ("equal", "refused by name", "noted by name", "transformers refuses", "drift", "unclear refusal", "crash")
"""How a value may end, from good to bad: `noted by name` where results differ on purpose, and a notice says so."""
BAD = frozenset(ENDED[4:])


@dataclass(frozen=True)
class Outcome:
    """How a value ended. `moves`: whether transformers' results differ from those without it."""

    ended: str
    why: str = ""
    moves: bool | None = None


@dataclass(frozen=True)
class Tried:
    """One line: a value of a key and how it ended."""

    base: str
    key: str
    value: str
    ended: str
    why: str = ""
    moves: bool | None = None

    @property
    def name(self) -> tuple[str, str, str]:
        return self.base, self.key, self.value


class TimeIsUpError(Exception):
    """A value took too long."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Stop what runs within after so many seconds of the processor, which a busy machine makes no more of."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeIsUpError(f"after {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def refusal(error: UserError, path: Keys, move: Mapping[str, Any]) -> Outcome:
    """Whether a refusal names the key or its value."""
    text, inner = str(error), [value for value in move.values() if isinstance(value, Mapping)]
    names = [*path[-1:], *move, *(name for table in inner for name in table)]
    values = [each for table in (move, *inner) for each in table.values() if isinstance(each, str)]
    clear = any(name in text for name in names) or any(repr(each) in text or f'"{each}"' in text for each in values)
    return Outcome("refused by name" if clear or not path else "unclear refusal", text[-300:])


def of_input(error: UserError, move: Mapping[str, Any]) -> Outcome:
    """A refusal of what a model is given, where the configuration is read: of an image that does not divide into patches it is
    clear if it has the number that was moved."""
    text = said(error)
    numbers = [value for value in move.values() if isinstance(value, int) and not isinstance(value, bool)]
    clear = any(re.search(rf"\b{number}\b", text) for number in numbers)
    return Outcome("refused by name" if clear else "unclear refusal", text)


def said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
