"""What was seen of the values inside a model, call by call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from anyformer.describe import InputError, did_you_mean


class NotSeenError(InputError, KeyError):
    """A value that was not watched, or that no call has computed."""

    def __str__(self) -> str:
        return str(self.args[0])


class SeenValues(Mapping[str, Tensor]):
    """The values at watched paths: `seen[path]` is the latest, `seen.calls` has those of each call of the model.

    They are the tensors with which the model went on, with their part of autograd's graph, so that a loss can be made of them.
    A path is also what names it alone among all of the model, such as `decoder.layer[-1].output`; `named` gives what one names.
    """

    def __init__(self, paths: tuple[str, ...], named: Callable[[str], tuple[str, ...]], *, gradients: bool = False) -> None:
        self.paths, self.keeps_gradients, self._named = paths, gradients, named
        self._calls: list[dict[str, Tensor]] = []

    @property
    def calls(self) -> tuple[Mapping[str, Tensor], ...]:
        """The values of each call of the model, such as the steps of a generation."""
        return tuple(self._calls)

    @property
    def gradients(self) -> Mapping[str, Tensor]:
        """The gradient of each value, where a backward pass has reached it; asked for by `gradients=True`."""
        if not self.keeps_gradients:
            raise InputError("gradients were not asked for: watch with gradients=True")
        return {path: value.grad for path, value in self.items() if value.grad is not None}

    def begin(self) -> None:
        """A call of the model begins."""
        self._calls.append({})

    def keep(self, path: str, value: Tensor) -> Tensor:
        """Keep a value, and give the one with which the model goes on."""
        if self.keeps_gradients:
            value = _with_gradient(path, value)
        self._calls[-1][path] = value
        return value

    def __getitem__(self, path: str) -> Tensor:
        for call in reversed(self._calls):
            if path in call:
                return call[path]
        if path not in self.paths:
            return self[self._one(path)]
        made = f"none of {len(self._calls)} calls has computed it" if self._calls else "the model was not called"
        raise NotSeenError(f"{path!r} was not seen: {made}")

    def _one(self, pattern: str) -> str:
        """The watched path that a pattern names."""
        try:
            found = self._named(pattern)
        except InputError:
            found = ()
        if len(found) > 1:
            raise NotSeenError(f"{pattern!r} names {len(found)} paths: {found[0]}, {found[1]} ...; ask for one of them")
        if not found or found[0] not in self.paths:
            raise NotSeenError(f"{pattern!r} was not watched{did_you_mean(pattern, self.paths)}")
        return found[0]

    def __iter__(self) -> Iterator[str]:
        return (path for path in self.paths if any(path in call for call in self._calls))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"SeenValues({', '.join(f'{path}: {tuple(value.shape)}' for path, value in self.items())})"


def _with_gradient(path: str, value: Tensor) -> Tensor:
    if not torch.is_grad_enabled():
        raise InputError(f"{path}: gradients=True needs a call that keeps autograd's graph: call the model outside of no_grad")
    if not value.is_floating_point():
        raise InputError(f"{path}: whole numbers have no gradient: watch them without gradients=True")
    value = value if value.requires_grad else value.detach().requires_grad_()
    value.retain_grad()
    return value
