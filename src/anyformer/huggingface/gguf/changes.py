"""What llama.cpp's layout does to tensors of Hugging Face's: `read` gives theirs from the file's, `write` the file's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.huggingface.rules import Shapes


@dataclass(frozen=True)
class Neighbours:
    """Rows of `heads` heads whose rotated pairs stand in two halves, in the file side by side.

    Of a head (a1 a2 .. b1 b2 ..) the file has (a1 b1 a2 b2 ..).
    """

    heads: int

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [self._turned(x, -1, 2) for x in stored]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [self._turned(x, 2, -1) for x in parameters]

    def _turned(self, x: Tensor, outer: int, inner: int) -> Tensor:
        rows = x.shape[0] // self.heads // 2
        sizes = (outer if outer > 0 else rows, inner if inner > 0 else rows)
        return x.reshape(self.heads, *sizes, *x.shape[1:]).transpose(1, 2).reshape(x.shape)


@dataclass(frozen=True)
class Shifted:
    """Numbers that the file has larger by `by`: gains stored as 1 + w."""

    by: float = 1.0

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [x - self.by for x in stored]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [x + self.by for x in parameters]


@dataclass(frozen=True)
class NegativeExponential:
    """Logarithms of decay, of which the file has -exp(x)."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [(-x).log() for x in stored]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [-x.exp() for x in parameters]


@dataclass(frozen=True)
class ShapedAs:
    """The same numbers in the file's shape; with -1, which stands for what is left."""

    file: tuple[int, ...]
    theirs: tuple[int, ...]

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [x.reshape(self.theirs) for x in stored]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [x.reshape(self.file) for x in parameters]


@dataclass(frozen=True)
class Ungrouped:
    """Rows of queries, keys and values, of theirs in `groups` groups of `queries` heads, a key's and a value's; in the file all
    queries, all keys, all values."""

    groups: int
    queries: int

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        made = []
        for x in stored:
            rows = x.shape[0] // (self.groups * (self.queries + 2))
            parts = torch.split(x, [self.groups * self.queries * rows, self.groups * rows, self.groups * rows])
            grouped = [part.reshape(self.groups, -1, *x.shape[1:]) for part in parts]
            made.append(torch.cat(grouped, 1).reshape(x.shape))
        return made

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        made = []
        for x in parameters:
            rows = x.shape[0] // (self.groups * (self.queries + 2))
            grouped = x.reshape(self.groups, -1, *x.shape[1:])
            parts = torch.split(grouped, [self.queries * rows, rows, rows], 1)
            made.append(torch.cat([part.reshape(-1, *x.shape[1:]) for part in parts]))
        return made


@dataclass(frozen=True)
class Halved:
    """Two tensors of the file one after the other along `dim` of theirs: gate and up of stacked experts."""

    dim: int = 1

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [torch.cat(list(stored), self.dim)]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return list(parameters[0].chunk(2, self.dim))


@dataclass(frozen=True)
class AlternatingExperts:
    """Stacked matrices (X, D, 2F) whose outputs alternate between gate and up, in the file two of (X, F, D); biases (X, 2F)."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        both = torch.stack(list(stored), 2).flatten(1, 2)
        return [both.mT if both.dim() == 3 else both]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        rows = parameters[0].mT if parameters[0].dim() == 3 else parameters[0]
        return [rows[:, ::2], rows[:, 1::2]]


@dataclass(frozen=True)
class TurnedExperts:
    """Stacked matrices (X, I, O), in the file (X, O, I); their biases are unchanged."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [x.mT if x.dim() == 3 else x for x in stored]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return self.read(parameters, ())


@dataclass(frozen=True)
class Absorbed:
    """Rows of `heads` heads of unrotated keys (`keys` rows) and values that a latent (R,) becomes; in the file keys (H, R, E)
    and values (H, E, R), as they are used on the latent itself."""

    heads: int
    keys: int

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        keys, values = stored
        both = torch.cat([keys.mT, values], 1)
        return [both.reshape(-1, both.shape[-1])]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        by_head = parameters[0].reshape(self.heads, -1, parameters[0].shape[-1])
        return [by_head[:, : self.keys].mT, by_head[:, self.keys :]]
