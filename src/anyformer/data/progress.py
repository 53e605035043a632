"""Progress of a long pass: a bar with the time left on a terminal, else a line every ten seconds; on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anyformer.describe import printable

BYTES = "bytes"
_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def meter(label: str, total: int, show: bool, unit: str = BYTES) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the bytes, or another `unit`, just done, of `total`; nothing is shown unless `show`."""
    if not show:
        yield lambda count: None
    elif sys.stderr.isatty():
        with _bar(label, total, unit) as advance:
            yield advance
    else:
        yield _lines(label, total, unit)


@contextmanager
def _bar(label: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    amount = DownloadColumn() if unit == BYTES else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda count: progress.advance(task, count)


def _lines(label: str, total: int, unit: str) -> Callable[[int], None]:
    began = said = time.monotonic()
    done = 0

    def advance(count: int) -> None:
        nonlocal said, done
        done += count
        now = time.monotonic()
        if now - said >= _SECONDS_BETWEEN_LINES:
            said = now
            left = (now - began) * max(0, total - done) / max(1, done)
            of = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB" if unit == BYTES else f"{done:,} of {total:,} {unit}"
            print(printable(f"{label}: {of}, {left:,.0f} s left"), file=sys.stderr, flush=True)

    return advance
