"""What becomes of one case: a result, an error for people, or what none may come to; under alarms and a limit of memory."""

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
from fuzz.guard import Seen, watched

PACKAGE = Path(anyformer.__file__).parent
SECONDS = 10.0
"""Processor time that one case may take: what else the machine does is no matter."""
WAITING = 60.0
"""Seconds on the wall until a case is taken to wait for something that never comes, such as the other end of a pipe."""
GROWTH = 600 * 2**20
"""Bytes that a case may add to the process: beside the 400 MB of the program with torch that is one GB."""
ROOM = 6 * 2**30
"""Bytes of addresses that all cases together may take on top of what is mapped when they begin."""
BAD = ("escape", "hang", "memory", "child", "outside")
"""What no case may come to: an error that is not for people; more than `SECONDS`; more than `GROWTH`; a program that was
started; a file that was opened outside the case's place."""


class Hang(BaseException):
    """The alarm rang."""


@dataclass(frozen=True)
class Outcome:
    """`kind`: ok, refused, usage, or one of `BAD`; seconds as a clock on the wall gives them; bytes added at the peak.

    `where`: the error and the last line of the package that it passed, or what was started or opened.
    """

    kind: str
    seconds: float
    bytes: int = 0
    where: str = ""


def judged(case: Callable[[], Any]) -> Outcome:
    """Run one case."""
    began, worked = time.perf_counter(), time.process_time()
    with watched() as seen:
        kind, where = _ended(case)
    seconds, worked = time.perf_counter() - began, time.process_time() - worked
    if kind != "hang" and worked > SECONDS:  # no alarm is heard before a library returns
        kind, where = "hang", f"{worked:.0f} s of processor time"
    kind, where = _noticed(seen) or (kind, where)
    return Outcome(kind, seconds, seen.bytes, where)


def _ended(case: Callable[[], Any]) -> tuple[str, str]:
    try:
        with _alarms():
            case()
    except UserError:
        return "refused", ""
    except typer.BadParameter:
        return "usage", ""
    except SystemExit as left:
        return ("ok" if left.code in (0, None) else "usage"), ""
    except Hang as error:
        return "hang", _where(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic in Rust is no Exception
        usage = type(error).__module__.startswith(("click", "typer"))
        return ("usage", "") if usage else ("escape", _where(error))
    return "ok", ""


def _noticed(seen: Seen) -> tuple[str, str] | None:
    """What counts however the case ended."""
    if seen.started:
        return "child", seen.started[0]
    if seen.outside:
        return "outside", Path(seen.outside[0]).name
    if seen.bytes > GROWTH:
        return "memory", f"more than {GROWTH:,} bytes"
    return None


@contextlib.contextmanager
def _alarms() -> Iterator[None]:
    def ring(number: int, frame: Any) -> None:
        raise Hang

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, SECONDS), signal.SIGALRM: (signal.ITIMER_REAL, WAITING)}
    before = {number: signal.signal(number, ring) for number in timers}
    running = {timer: signal.setitimer(timer, seconds)[0] for timer, seconds in timers.values()}
    try:
        yield
    finally:
        for timer, left in running.items():  # the test's own timeout goes on
            signal.setitimer(timer, left)
        for number, handler in before.items():
            signal.signal(number, handler)


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
