"""What becomes of one case: a result, an error for people, an escape or a hang; under an alarm and a limit of memory."""

from __future__ import annotations

import contextlib
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

import anyformer
from anyformer.describe import UserError

PACKAGE = Path(anyformer.__file__).parent
SECONDS = 10.0
"""Processor time that one case may take: what else the machine does is no matter."""
ROOM = 6 * 2**30
"""Bytes of addresses that all cases together may take on top of what is mapped when they begin."""


class Hang(BaseException):
    """The alarm rang."""


@dataclass(frozen=True)
class Outcome:
    """`kind`: ok, refused, usage, escape or hang; seconds as a clock on the wall gives them.

    `where`: the error and the last line of the package that it passed.
    """

    kind: str
    seconds: float
    where: str = ""


def judged(case: Callable[[], Any]) -> Outcome:
    """Run one case."""
    began = time.perf_counter()
    where = ""
    try:
        with _alarm():
            case()
        kind = "ok"
    except UserError:
        kind = "refused"
    except typer.BadParameter:
        kind = "usage"
    except SystemExit as left:
        kind, where = ("ok" if left.code in (0, None) else "usage"), ""
    except Hang as error:
        kind, where = "hang", _where(error)
    except Exception as error:
        usage = type(error).__module__.startswith(("click", "typer"))
        kind, where = ("usage", "") if usage else ("escape", _where(error))
    return Outcome(kind, time.perf_counter() - began, where)


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def ring(number: int, frame: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def little_memory(room: int = ROOM) -> Iterator[None]:
    """No more than `room` bytes on top of today's; what asks for more gets a MemoryError, and the machine lives."""
    with open("/proc/self/statm", encoding="ascii") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _where(error: BaseException) -> str:
    """`KeyError at huggingface/words/rope.py:83`."""
    passed = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [f" at {file.relative_to(PACKAGE)}:{line}" for file, line in passed if file.is_relative_to(PACKAGE)]
    return type(error).__name__ + "".join(ours[-1:])
