"""The most bytes that live at once in a forward pass: what it saves, and what it needs for a moment, such as drawn noise."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class LiveBytes(NamedTuple):
    """The most bytes at once while a `layer` computes, or outside of all (empty) after the stacks `before`.

    `bytes`: saved outside of layers and in this one so far, and alive for a moment; layers before save theirs beside.
    """

    layer: str
    before: tuple[str, ...]
    bytes: int


class _Event(NamedTuple):
    at: int
    bytes: int
    """0 where a tensor ends."""
    layer: str
    before: tuple[str, ...]


class LiveTensors:
    """The tensors of a pass as they begin and end; `on`: whether they are noted."""

    def __init__(self) -> None:
        self.on = False
        self._events: list[_Event] = []
        self._watched: set[weakref.ref[Any]] = set()

    def begins(self, x: Any, at: int, bytes: int, layer: str, before: tuple[str, ...]) -> None:
        """Note that a tensor begins in the storage at an address, and see when it ends."""
        if not self.on:
            return
        self._events.append(_Event(at, bytes, layer, before))

        def ends(reference: weakref.ref[Any]) -> None:
            self._watched.discard(reference)
            self._events.append(_Event(at, 0, "", ()))

        self._watched.add(weakref.ref(x, ends))

    def most(self, saved: Mapping[int, str], left_out: set[int]) -> Iterator[LiveBytes]:
        """The most bytes in every layer, and outside of all; `saved`: the layer of every storage that stays to the end, by
        address; `left_out`: addresses of storages that are not counted."""
        tensors, stays, most = Counter[int](), Counter[str](), dict[tuple[str, tuple[str, ...]], int]()
        sizes: dict[int, int] = {}
        for at, bytes, layer, before in self._events:
            if at in left_out:
                continue
            tensors[at] += 1 if bytes else -1
            if bytes and at not in sizes:
                sizes[at] = bytes
                stays[saved.get(at, _MOMENT)] += bytes
            elif not bytes and not tensors[at] and at not in saved:
                stays[_MOMENT] -= sizes.pop(at)
            if bytes:
                own = stays[layer] if layer else 0
                most[layer, before] = max(most.get((layer, before), 0), stays[""] + own + stays[_MOMENT])
        return (LiveBytes(layer, before, size) for (layer, before), size in most.items())


_MOMENT = "moment"
"""Where bytes are counted that no operation saves."""
