"""What a logger is: a description in a run's settings, and the writer that it begins."""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator

from anyformer.describe import Registry, UserError, Value

Ending = Literal["finished", "stopped", "failed"]
"""How a process that trains a run ended: every update is made, it can be continued, or an error ended it."""


@dataclass(frozen=True)
class Start:
    """What a writer begins with.

    `directory`: of the run; `settings`: the run's full description as plain data; `step`: the last update that the logger was
    told and that stands, 0 for none; `ids`: what the writer of an earlier process gave as its own.
    """

    directory: Path
    settings: Mapping[str, Any]
    step: int = 0
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The run's name: that of its directory."""
        return self.directory.resolve().name


class Writer(ABC):
    """Writes what a run tells to one place, all of it from one thread. Whatever it raises ends this logger alone.

    `where`: where to look, in words; `ids`: what the place calls the run, kept for the next process; `new`: whether the place
    holds nothing of the run yet, so that it is told all from the first update on.
    """

    where: str
    ids: Mapping[str, str]
    new: bool

    @abstractmethod
    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers of a step, by names that stay the same in every version."""

    @abstractmethod
    def note(self, step: int, kind: str, text: str) -> None:
        """Something that happened at a step, such as a batch that was left out."""

    @abstractmethod
    def close(self, ending: Ending) -> None:
        """The process ends; the run may be continued by another one."""

    def picture(self, step: int, name: str, path: Path) -> None:  # noqa: B027 - a place may have no pictures
        """A PNG file."""

    def rewind(self, step: int) -> None:  # noqa: B027 - a place may not be able to forget
        """The updates after `step` are forgotten: the run goes on from there with other batches."""

    def flush(self) -> None:  # noqa: B027 - a place may write at once
        """Write out what was told, so that it is kept if the process is killed now."""


class Logger(Value):
    """A place to which a run tells its metrics, beside `metrics.jsonl`.

    A bare word stands for the table of its kind: `loggers = ["wandb"]` is `loggers = [{ kind = "wandb" }]`.
    """

    kinds: ClassVar[Registry] = Registry()
    bare: ClassVar[bool] = True
    kind: str

    package: ClassVar[str]
    """The module that it needs; the extra of this package that installs it has the logger's kind as its name."""

    def check(self) -> None:
        """Raise `UserError`, before any work, for what is missing beside the package."""

    def begin(self, start: Start) -> Writer:
        """The writer of a run that begins, or goes on."""
        raise NotImplementedError


def _listed(given: Any) -> Any:
    return (given,) if isinstance(given, str | Mapping | Logger) else given


def _once(loggers: tuple[Logger, ...]) -> tuple[Logger, ...]:
    for kind, count in Counter(each.kind for each in loggers).items():
        if count > 1:
            raise ValueError(f"{kind!r} is named {count} times: name it once")
    return loggers


LoggerList = Annotated[tuple[Logger, ...], BeforeValidator(_listed), AfterValidator(_once)]
"""Loggers, without repetition; one alone needs no list."""


def check_loggers(loggers: Iterable[Logger]) -> None:
    """Raise `UserError` for a logger whose package is not installed or cannot be imported, or that lacks anything else."""
    for logger in loggers:
        name, remedy = logger.package, f"pip install 'anyformer[{logger.kind}]', or leave it out of loggers"
        found = importlib.util.find_spec(name)
        # A folder of this name in the working directory is a module too, without an origin: `wandb/` of earlier runs is one.
        if found is None or found.origin is None:
            raise UserError(f"loggers: {logger.kind!r} needs the package {name}, which is not installed: {remedy}")
        try:
            importlib.import_module(name)
        except Exception as error:  # a package beside versions that it does not know may raise anything
            raise UserError(
                f"loggers: {logger.kind!r} needs the package {name}, which cannot be imported ({error}): {remedy}"
            ) from error
        logger.check()
