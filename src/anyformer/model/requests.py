"""What is asked of the values inside a model: that they are kept, replaced, or that the call ends or begins at one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from torch import Tensor

from anyformer.describe import InputError
from anyformer.model.seen_values import SeenValues

Replacement = Tensor | float | Callable[[Tensor], Tensor]
"""A value to go on with, which broadcasts to the one that stands there, or a function of that one."""


class StoppedCallError(Exception):
    """A call was stopped at a value, as asked."""

    def __init__(self, stop: StopAt) -> None:
        super().__init__(f"the call was stopped at {stop.path}")
        self.stop = stop


@dataclass
class Patch:
    """Values at paths are replaced; `applied`: how many were."""

    paths: tuple[str, ...]
    by: Replacement
    applied: int = 0

    def replaced(self, path: str, value: Tensor) -> Tensor:
        """What the model goes on with, in the type and on the device of what stands there."""
        self.applied += 1
        if callable(self.by) and not isinstance(self.by, Tensor):
            new = self.by(value)
            if not isinstance(new, Tensor) or new.shape != value.shape:
                got = f"shape {tuple(new.shape)}" if isinstance(new, Tensor) else type(new).__name__
                raise InputError(f"{path}: the function should give a tensor of shape {tuple(value.shape)}, got {got}")
            return new.to(value)
        given = self.by if isinstance(self.by, Tensor) else value.new_full((), self.by)
        try:
            return given.to(value).expand_as(value)
        except RuntimeError:
            shapes = f"should broadcast to shape {tuple(value.shape)}, got {tuple(given.shape)}"
            raise InputError(f"{path}: the value {shapes}") from None


@dataclass
class StopAt:
    """The call ends at a path, with the value that stands there."""

    path: str
    found: list[Tensor] = field(default_factory=list)

    @property
    def value(self) -> Tensor:
        """The value at which the call was stopped."""
        if not self.found:
            raise InputError(f"no call was stopped at {self.path}: none has computed it")
        return self.found[-1]


@dataclass(frozen=True)
class ResumeAt:
    """The call goes on from a path with a value: what stands before it is not computed."""

    path: str
    value: Tensor


R = TypeVar("R")
Request = SeenValues | Patch | StopAt | ResumeAt


class Requests:
    """All that is asked of the calls of a model, by path; later patches are given what earlier ones leave."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self.requests = tuple(requests)
        self._patches: dict[str, list[Patch]] = {}
        self._seen: dict[str, list[SeenValues]] = {}
        self._stops: dict[str, StopAt] = {}
        self._resumes: dict[str, Tensor] = {}
        for request in self.requests:
            match request:
                case SeenValues():
                    _under(self._seen, request.paths, request)
                case Patch():
                    _under(self._patches, request.paths, request)
                case StopAt():
                    self._stops[request.path] = request
                case ResumeAt():
                    self._resumes[request.path] = request.value

    @property
    def partial(self) -> str | None:
        """The path at which a call ends or begins; None of one that is computed whole."""
        return next(iter((*self._stops, *self._resumes)), None)

    def begin(self) -> None:
        """A call of the model begins."""
        for request in self.requests:
            if isinstance(request, SeenValues):
                request.begin()

    def wants(self, path: str) -> bool:
        return path in self._patches or path in self._seen or path in self._stops

    def enters(self, path: str) -> Tensor | None:
        return self._resumes.get(path)

    def met(self, path: str, value: Tensor) -> Tensor:
        for patch in self._patches.get(path, ()):
            value = patch.replaced(path, value)
        for seen in self._seen.get(path, ()):
            value = seen.keep(path, value)
        if (stop := self._stops.get(path)) is not None:
            stop.found.append(value)
            raise StoppedCallError(stop)
        return value


def _under(table: dict[str, list[R]], paths: tuple[str, ...], request: R) -> None:
    for path in paths:
        table.setdefault(path, []).append(request)
