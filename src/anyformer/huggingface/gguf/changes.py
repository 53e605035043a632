"""What llama.cpp's layout does to tensors of Hugging Face's: `read` gives theirs from the file's, `write` the file's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from anyformer.huggingface.rules import Op, Shapes


@dataclass(frozen=True)
class Reversed:
    """A rule of weights with its sides exchanged: what it reads is written, and what it writes is read."""

    op: Op
    shapes: Shapes = ()
    """Of what the file holds, where the rule has to know them to split."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return self.op.write(stored)

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return self.op.read(parameters, self.shapes)


@dataclass(frozen=True)
class Neighbours:
    """Rows of `heads` heads whose rotated pairs stand in two halves, in the file side by side; `kept` rows of a head stay.

    Of a head (a1 a2 .. | b1 b2 ..) the file has (a1 b1 a2 b2 ..), and after it what does not rotate.
    """

    heads: int
    kept: int = 0
    first: bool = False
    """Whether the rows that do not rotate come before the others."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [self._turned(x, -1, 2) for x in stored]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [self._turned(x, 2, -1) for x in parameters]

    def _turned(self, x: Tensor, outer: int, inner: int) -> Tensor:
        rows = x.reshape(self.heads, -1, *x.shape[1:])
        still, turning = rows[:, : self.kept], rows[:, self.kept :]
        if not self.first:
            turning, still = rows[:, : rows.shape[1] - self.kept], rows[:, rows.shape[1] - self.kept :]
        turned = turning.reshape(self.heads, outer, inner, *x.shape[1:]).transpose(1, 2).reshape(turning.shape)
        return _joined((still, turned) if self.first else (turned, still), x)


def _joined(parts: tuple[Tensor, Tensor], like: Tensor) -> Tensor:
    import torch

    return torch.cat(parts, 1).reshape(like.shape)


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
