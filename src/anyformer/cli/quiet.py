"""The option --quiet, which every command has."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Annotated, Any

import typer

from anyformer.cli.options import also_taking

Quiet = Annotated[bool, typer.Option("--quiet", help="Print the answer and errors alone: no progress, no notes, no warnings.")]


def with_quiet(run: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the option: what it says on standard error goes nowhere; an error leaves it and is shown."""

    def command(*arguments: Any, quiet: bool = False, **options: Any) -> Any:
        with _silence() if quiet else contextlib.nullcontext():
            return run(*arguments, **options)

    return also_taking(run, "quiet", Quiet, False, command)


_QUIET = ContextVar("quiet", default=False)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        before = _QUIET.set(True)
        try:
            yield
        finally:
            _QUIET.reset(before)


@contextlib.contextmanager
def progress_aside(aside: bool = False) -> Iterator[None]:
    """Inside, what is printed as work goes on is no answer: with --quiet, or `aside`, it is on standard error."""
    with contextlib.redirect_stdout(sys.stderr) if aside or _QUIET.get() else contextlib.nullcontext():
        yield
