"""Rotary positions along several axes: which of a token's positions turns each pair of features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from anyformer.describe import Registry, Value

if TYPE_CHECKING:
    from torch import Tensor


Sizes = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=2)]


class RotaryAxes(Value):
    """The base of divisions of a head's R / 2 pairs among n axes, such as time, height and width.

    A token of text has one position, which it has on every axis; those of an image have one on each.
    """

    kinds: ClassVar[Registry] = Registry()
    kind: str

    @property
    def count(self) -> int:
        """n, the axes."""
        raise NotImplementedError

    def axis(self, pair: int, pairs: int) -> int:
        """The axis whose position turns a pair, of R / 2 in all."""
        raise NotImplementedError

    def frequency(self, pair: int, pairs: int) -> tuple[int, int]:
        """(i, n): a pair turns by theta^(-i / n), of R / 2 in all."""
        return pair, pairs

    def check(self, pairs: int) -> None:
        """Refuse a number of pairs, R / 2, that does not fit."""

    def chosen(self, positions: Tensor, pairs: int) -> Tensor:
        """The position of each pair, (B, T, R / 2): of (n, B, T), or of (B, T) or (1, B, T), which are those of every axis."""
        if positions.dim() == 2 or len(positions) == 1:
            return positions.view(*positions.shape[-2:], 1).expand(-1, -1, pairs)
        import torch

        from anyformer.parts.constant import listed

        axes = tuple(self.axis(pair, pairs) for pair in range(pairs))
        return positions.index_select(0, listed(axes, torch.long, positions.device)).movedim(0, -1)


class Sections(RotaryAxes):
    """M-RoPE: the first `sizes[0]` pairs turn by time, the next `sizes[1]` by height, the last by width.

    Wang et al. 2024, "Qwen2-VL" (arXiv 2409.12191), section 2.1; transformers' `mrope_section`. Frequencies are those of one
    axis, so that a text turns as with plain rotary positions.
    """

    kind: Literal["sections"] = "sections"
    sizes: Sizes

    @property
    def count(self) -> int:
        return len(self.sizes)

    def axis(self, pair: int, pairs: int) -> int:
        return next(axis for axis in range(self.count) if pair < sum(self.sizes[: axis + 1]))

    def check(self, pairs: int) -> None:
        if sum(self.sizes) != pairs:
            raise ValueError(
                f"sections of {' + '.join(map(str, self.sizes))} = {sum(self.sizes)} pairs should be all {pairs} of a head"
            )


class Interleaved(RotaryAxes):
    """Interleaved M-RoPE: pair i turns by axis i mod n, the first `sizes[a]` of each axis but the first; all others by time.

    Qwen3-VL (Bai et al. 2025, arXiv 2511.21631); transformers' `mrope_section` with `mrope_interleaved`. Every axis has high
    and low frequencies.
    """

    kind: Literal["interleaved"] = "interleaved"
    sizes: Sizes

    @property
    def count(self) -> int:
        return len(self.sizes)

    def axis(self, pair: int, pairs: int) -> int:
        turn, axis = divmod(pair, self.count)
        return axis if turn < self.sizes[axis] else 0

    def check(self, pairs: int) -> None:
        turned = [self.axis(pair, pairs) for pair in range(pairs)]
        if any(turned.count(axis) != size for axis, size in enumerate(self.sizes)):
            raise ValueError(f"interleaved sections of {self.sizes} pairs do not fit into the {pairs} pairs of a head")


class Axial(RotaryAxes):
    """Each of `axes` equal shares of the pairs turns by its own axis, with the frequencies of a head of R / n features.

    The towers of Qwen2-VL (arXiv 2409.12191) turn by a patch's row and column; Heo et al. 2024 (arXiv 2403.13298).
    """

    kind: Literal["axial"] = "axial"
    axes: Annotated[int, Field(ge=2)] = 2
    frequencies: Literal["alike", "dealt"] = "alike"
    """Whether every axis has those of a head of R / n features, or those of a head of R features are dealt out to the axes in
    turn, so that no two have one alike (Pixtral: Agrawal et al. 2024, arXiv 2410.07073, section 2.1)."""

    @model_validator(mode="after")
    def _few(self) -> Axial:
        if self.axes > 16:
            raise ValueError(f"axes = {self.axes}: at most 16")
        return self

    @property
    def count(self) -> int:
        return self.axes

    def axis(self, pair: int, pairs: int) -> int:
        return pair * self.axes // pairs

    def frequency(self, pair: int, pairs: int) -> tuple[int, int]:
        axis, number = divmod(pair, pairs // self.axes)
        return (number, pairs // self.axes) if self.frequencies == "alike" else (number * self.axes + axis, pairs)

    def check(self, pairs: int) -> None:
        if pairs % self.axes:
            raise ValueError(f"{pairs} pairs of a head do not divide among {self.axes} axes")
