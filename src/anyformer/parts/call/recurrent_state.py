"""Decode state that does not grow: running sums over all positions, and the latest inputs of short convolutions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from anyformer.parts.call.opened import Showing
from anyformer.parts.call.state import StateError


class ConvolutionState:
    """The latest inputs (B, n - 1, W) of a causal convolution with a kernel of n."""

    allows_padding = True

    def __init__(self, recent: Tensor) -> None:
        self.recent = recent

    @property
    def nbytes(self) -> int:
        return self.recent.nbytes

    def take(self, other: ConvolutionState) -> None:
        self.recent.copy_(other.recent)

    def put(self, rows: Tensor, other: ConvolutionState, start: int, count: int) -> None:
        self.recent[rows] = other.recent

    def shift(self, count: int, used: int) -> None:
        """It has no slots."""

    def check_trim(self, written: int, count: int) -> None:
        if count:
            raise StateError(
                f"a short convolution keeps its latest {self.recent.shape[1]} inputs only: the last {count} positions cannot "
                f"be taken back; fork the state before you extend it"
            )

    def kept(self, start: int, count: int) -> Tensor:
        return self.recent.clone()

    def parts(self, count: int) -> bool:
        return count <= 1

    def restore(self, kept: Tensor, start: int, first: int, stop: int) -> None:
        assert start == first, "none or all are forgotten"
        self.recent.copy_(kept)

    def fork(self, rows: Tensor) -> ConvolutionState:
        return ConvolutionState(self.recent[rows].clone())


class RecurrentState:
    """Running sums (B, K, G, M, E) in fp32, and by name the states of the convolutions before them."""

    allows_padding = True

    def __init__(self, sums: Tensor, convolutions: Mapping[str, ConvolutionState] | None = None) -> None:
        self.sums, self.convolutions = sums, dict(convolutions or {})

    @staticmethod
    def empty(*shape: int, device: torch.device, convolutions: Mapping[str, ConvolutionState] | None = None) -> RecurrentState:
        return RecurrentState(torch.zeros(shape, dtype=torch.float32, device=device), convolutions)

    @property
    def nbytes(self) -> int:
        return self.sums.nbytes + sum(state.nbytes for state in self.convolutions.values())

    def take(self, other: RecurrentState) -> None:
        self.sums.copy_(other.sums)
        for name, state in self.convolutions.items():
            state.take(other.convolutions[name])

    def put(self, rows: Tensor, other: RecurrentState, start: int, count: int) -> None:
        self.sums[rows] = other.sums
        for name, state in self.convolutions.items():
            state.put(rows, other.convolutions[name], start, count)

    def shift(self, count: int, used: int) -> None:
        """It has no slots."""

    def check_trim(self, written: int, count: int) -> None:
        if count:
            raise StateError(
                f"a recurrent state is one sum over the {written} positions so far: the last {count} cannot be taken "
                f"back; fork the state before you extend it"
            )

    def kept(self, start: int, count: int) -> tuple[Tensor, dict[str, Tensor]]:
        return self.sums.clone(), {name: state.kept(start, count) for name, state in self.convolutions.items()}

    def parts(self, count: int) -> bool:
        return count <= 1

    def restore(self, kept: tuple[Tensor, dict[str, Tensor]], start: int, first: int, stop: int) -> None:
        assert start == first, "none or all are forgotten"
        self.sums.copy_(kept[0])
        for name, state in self.convolutions.items():
            state.restore(kept[1][name], start, first, stop)

    def fork(self, rows: Tensor) -> RecurrentState:
        return RecurrentState(self.sums[rows].clone(), {name: state.fork(rows) for name, state in self.convolutions.items()})


def hold(sums: Tensor, state: RecurrentState | None, showing: Showing) -> None:
    """The running sums behind a call, seen as `state`, become those of its decode state, if it has one."""
    sums = showing.see("state", sums)
    if state is not None:
        state.sums.copy_(sums)
