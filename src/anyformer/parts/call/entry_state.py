"""Decode state of compressed attention: a window of keys, the entries made so far, and the tokens of those to come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from anyformer.parts.call.ring_state import RingState
from anyformer.parts.call.state import FullState, StateError


class EntryState:
    """Entries (B, C // m + 1, E) by number, the last of which is no entry's: what is not yet complete is written there.

    `tail` (B, r * m, F): what the latest tokens give to entries, that of position p at place p mod r * m.
    """

    def __init__(self, entries: Tensor, tail: Tensor) -> None:
        self.entries, self.tail = entries, tail

    @staticmethod
    def empty(
        batch: int, entries: int, features: int, tail: tuple[int, int], dtype: torch.dtype, device: torch.device
    ) -> EntryState:
        """Room for so many entries, and for `tail`: tokens and what each of them gives."""
        held = torch.zeros(batch, entries + 1, features, dtype=dtype, device=device)
        return EntryState(held, torch.zeros(batch, *tail, dtype=dtype, device=device))

    @property
    def nbytes(self) -> int:
        return self.entries.nbytes + self.tail.nbytes

    def write(self, entries_BnE: Tensor, numbers_Bn: Tensor, complete_Bn: Tensor) -> None:
        """Hold the entries that are complete under their numbers."""
        spare = self.entries.shape[1] - 1
        at = torch.where(complete_Bn, numbers_Bn, spare)[..., None].expand(entries_BnE.shape)
        self.entries.scatter_(1, at, entries_BnE.to(self.entries.dtype))

    def take(self, other: EntryState) -> None:
        self.entries[:, : other.entries.shape[1]] = other.entries
        self.tail.copy_(other.tail)

    def put(self, rows: Tensor, other: EntryState) -> None:
        self.entries[rows], self.tail[rows] = other.entries, other.tail

    def fork(self, rows: Tensor) -> EntryState:
        return EntryState(self.entries[rows].clone(), self.tail[rows].clone())


class CompressedState:
    """The latest keys by slot, and by name the entries of each compressor, which have places by position."""

    def __init__(self, window: FullState | RingState, entries: Mapping[str, EntryState]) -> None:
        self.window, self.entries = window, dict(entries)

    @property
    def allows_padding(self) -> bool:
        return self.window.allows_padding

    @property
    def nbytes(self) -> int:
        return self.window.nbytes + sum(state.nbytes for state in self.entries.values())

    def take(self, other: CompressedState) -> None:
        self.window.take(other.window)
        for name, state in self.entries.items():
            state.take(other.entries[name])

    def put(self, rows: Tensor, other: CompressedState, start: int, count: int) -> None:
        self.window.put(rows, other.window, start, count)  # type: ignore[arg-type]
        for name, state in self.entries.items():
            state.put(rows, other.entries[name])

    def shift(self, count: int, used: int) -> None:
        """Entries and tails have places by position, which a row keeps."""
        self.window.shift(count, used)

    def check_trim(self, written: int, count: int) -> None:
        if self.entries and count:
            raise StateError(
                f"compressed attention keeps its latest tokens over earlier ones: the last {count} positions cannot be taken "
                f"back; fork the state before you extend it"
            )
        self.window.check_trim(written, count)

    def kept(self, start: int, count: int) -> tuple[Any, dict[str, Tensor]]:
        # Entries that were not complete are written again: only tails are overwritten.
        return self.window.kept(start, count), {name: state.tail.clone() for name, state in self.entries.items()}

    def parts(self, count: int) -> bool:
        return self.window.parts(count) and (count <= 1 or not self.entries)

    def restore(self, kept: tuple[Any, dict[str, Tensor]], start: int, first: int, stop: int) -> None:
        assert start == first or not self.entries, "none or all are forgotten"
        self.window.restore(kept[0], start, first, stop)
        for name, tail in kept[1].items():
            self.entries[name].tail.copy_(tail)

    def fork(self, rows: Tensor) -> CompressedState:
        return CompressedState(self.window.fork(rows), {name: state.fork(rows) for name, state in self.entries.items()})
