"""What a template may take while it writes one chat: steps, memory and time, counted before every operation."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from anyformer.text.errors import DataError

STEPS = 200_000
"""Operations, with 100 more per character of what a template is given; published ones take some hundred."""
SIZE = 32_000_000
"""Characters made, with 200 more for each that is given: also those of intermediate texts."""
SECONDS = 1.0
"""Processor time, with 2 microseconds per character that is given."""
LARGEST_NUMBER = 100_000
"""The largest number in a call, such as a width, and of bits in a whole number."""
SLOT = 16
"""What a value counts beside its characters."""
_HEAVY = 10_000
"""Characters of an operation after which the clock is looked at."""
_ATOMS = frozenset((bool, int, float, type(None)))
_LISTS: tuple[type[Collection[Any]], ...] = (list, tuple, set, frozenset, type({}.items()), type({}.keys()), type({}.values()))


class TemplateLimit(DataError):  # noqa: N818 (what happened, not what failed)
    """A template takes more than it may."""


class TemplateBudget:
    """The steps, the memory and the time that a template may still take."""

    def __init__(self, given: int) -> None:
        self.steps = STEPS + 100 * given
        self.size = SIZE + 200 * given
        self._until = time.thread_time() + SECONDS + 2e-6 * given

    def step(self, count: int = 1) -> None:
        """Count operations."""
        before, self.steps = self.steps, self.steps - count
        if self.steps < 0:
            raise too_much("takes too many steps")
        if count > 1 or not before & 63:
            self.look()

    def look(self) -> None:
        """Look at the clock."""
        if time.thread_time() > self._until:
            raise too_much("takes too long")

    def take(self, size: int) -> None:
        """Count characters that are about to be made."""
        self.size -= size
        if self.size < 0:
            raise too_much("makes too long texts")
        if size > _HEAVY:
            self.look()

    def weigh(self, *values: Any) -> int:
        """The weight of values that an operation looks at wholly, which may not be more than what is left."""
        total = 0
        for value in values:
            kind = type(value)
            total += len(value) if kind is str else SLOT if kind in _ATOMS else weight(value, self.size)
            if total > self.size:
                raise too_much("makes too long texts")
        if total > _HEAVY:
            self.look()
        return total


_current: ContextVar[TemplateBudget | None] = ContextVar("budget", default=None)
_ENDLESS = TemplateBudget(10**15)
"""While a template is read, nothing is computed but what stands in it."""


def current() -> TemplateBudget:
    """The budget of the chat that is being written."""
    return _current.get() or _ENDLESS


@contextmanager
def budget_for(variables: Mapping[str, Any]) -> Iterator[TemplateBudget]:
    """Inside, a new budget counts, by the size of what a template is given."""
    budget = TemplateBudget(weight(dict(variables), 10**9))
    token = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(token)


def too_much(what: str) -> TemplateLimit:
    """The error about a template."""
    return TemplateLimit(f"the tokenizer's chat template {what} for a chat of this size, as one that never ends does: mend it")


def weight(value: Any, most: int) -> int:
    """Characters, and `SLOT` per value; what stands at several places counts at each. Ends soon beyond `most`."""
    total, left = 0, [value]
    while left:
        each = left.pop()
        if isinstance(each, (str, bytes)):
            total += len(each)
        elif isinstance(each, dict):
            total += 2 * SLOT * len(each)
            if total <= most:
                left += each.keys()
                left += each.values()
        elif isinstance(each, _LISTS):
            total += SLOT * len(each)
            if total <= most:
                left += each
        if total > most:
            raise too_much("makes too long texts")
        total += SLOT
    return total


def made(value: Any) -> int:
    """The characters of a new value itself, not of those inside it."""
    if type(value) in _ATOMS:
        return SLOT
    if isinstance(value, (str, bytes)):
        return SLOT + len(value)
    if isinstance(value, dict):
        return SLOT * (1 + len(value))
    return SLOT * (1 + len(value)) if isinstance(value, _LISTS) else SLOT


class CountedItems:
    """The items of a loop, each a step."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        step = current().step
        for item in self._items:
            step()
            yield item

    def __len__(self) -> int:
        return len(cast("Collection[Any]", self._items))  # a TypeError where there is no length, as without us
