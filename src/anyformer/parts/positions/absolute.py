"""Absolute positions, added to the input of a stack: a learned table or fixed sinusoids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from anyformer.describe import Count, Moderate, Positive, Registry
from anyformer.operations import Limit, Tally, Weight
from anyformer.parts.sketch import Drawn, Sketch, number

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.positions.absolute_module import (
        GappedPositionModule,
        LearnedPositionModule,
        PositionModule,
        SinusoidalGridModule,
        SinusoidalPositionModule,
    )


class Position(Drawn):
    """The base of absolute positions: a vector per position, added to the stream."""

    kinds: ClassVar[Registry] = Registry()
    kind: str
    position_name: ClassVar[str]
    """Its name in tables of architectures."""
    length: int | None = None
    """Longest sequence, in positions; None without limit."""

    @property
    def across(self) -> int | None:
        """Patches of a row of the image that it is for; None where it does not tell rows from columns."""
        return None

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The contracts that it breaks, if its vectors depend on neighbours."""
        return ()

    def check(self, width: int) -> None:
        """Refuse a width that does not fit."""

    def vectors(self, positions: Tensor, width: int) -> Tensor | None:
        """The vectors (..., D) of positions that follow from a formula; None where weights or the stream decide them."""
        return None

    def build(self, width: int) -> PositionModule:
        """The module: positions (B, T) and the stream (B, T, D) -> (B, T, D)."""
        raise NotImplementedError

    def cost(self, width: int, rows: int) -> Tally:
        """Its weights, and its work on `rows` positions."""
        return Tally()


class LearnedPosition(Position):
    """A learned vector per position: x_t + P[t + offset], P (length + offset, D) (BERT, GPT-2; OPT and BART: offset 2)."""

    position_name: ClassVar[str] = "learned"
    kind: Literal["learned_position"] = "learned_position"
    length: Count
    """Longest sequence, in positions."""
    offset: Annotated[int, Field(ge=0)] = 0
    """Rows before position 0 that no token uses."""

    def sketch(self, width: int) -> Sketch:
        return Sketch("Learned positions", (f"{self.length:,} × {number(width)}",))

    def build(self, width: int) -> LearnedPositionModule:
        from anyformer.parts.positions.absolute_module import LearnedPositionModule

        return LearnedPositionModule(self, width)

    def cost(self, width: int, rows: int) -> Tally:
        shape = (self.length + self.offset, width)
        return Tally({"weight": Weight(shape, "replicate", "embedding", axes=((("positions", self.length),), ()))})


class GappedPosition(Position):
    """A learned vector per position but the n from position a on: x_t + P[t] before them, x_t, x_t + P[t - n] behind them.

    P (length - n, D). Registers stand there, between an image's class token and its patches, and have no place of their own
    (Darcet et al. 2023, arXiv 2309.16588; DINOv2 with registers).
    """

    position_name: ClassVar[str] = "learned"
    kind: Literal["gapped_position"] = "gapped_position"
    length: Count
    """Longest sequence, in positions, with those that have no vector."""
    start: Annotated[int, Field(ge=0)] = 1
    """a, the first position without a vector."""
    gap: Count = 4
    """n, the positions without a vector."""

    @model_validator(mode="after")
    def _ends(self) -> GappedPosition:
        if self.start + self.gap > self.length or self.gap == self.length:
            raise ValueError(
                f"{self.gap} positions from {self.start} on have no vector, and one of {self.length} around them needs "
                f"one: set a greater length or a smaller gap"
            )
        return self

    def sketch(self, width: int) -> Sketch:
        without = f"none for {self.gap:,} from {self.start:,} on"
        return Sketch("Learned positions", (f"{self.length - self.gap:,} × {number(width)}", without))

    def build(self, width: int) -> GappedPositionModule:
        from anyformer.parts.positions.absolute_module import GappedPositionModule

        return GappedPositionModule(self, width)

    def cost(self, width: int, rows: int) -> Tally:
        places = self.length - self.gap
        return Tally({"weight": Weight((places, width), "replicate", "embedding", axes=((("positions", places),), ()))})


class SinusoidalPosition(Position):
    """Fixed waves: x_t + scale * P[t + offset], P[t] = sin and cos of t * theta^(-2i / n), i < D / 2 (arXiv 1706.03762, 3.5).

    `layout`: sines and cosines interleaved (the paper) or in two halves, `cosines_first` (MusicGen) or sines. `spacing`: n = D
    (the paper), or n = D - 2, so that the slowest wave is exactly 1 / theta (fairseq).
    """

    position_name: ClassVar[str] = "sinusoidal"
    kind: Literal["sinusoidal_position"] = "sinusoidal_position"
    layout: Literal["interleaved", "halves", "cosines_first"] = "interleaved"
    spacing: Literal["paper", "inclusive"] = "paper"
    theta: Moderate = 10_000.0
    offset: Annotated[int, Field(ge=0)] = 0
    scale: Positive = 1.0
    """A factor of the waves (Canary: D^-0.5)."""

    def sketch(self, width: int) -> Sketch:
        times = () if self.scale == 1 else (f"× {number(self.scale)}",)
        return Sketch("Sinusoidal positions", (f"θ {number(self.theta)}", *times))

    def check(self, width: int) -> None:
        if width % 2 or (self.spacing == "inclusive" and width < 4):
            raise ValueError(
                f"sinusoidal positions pair sines with cosines, so the width must be even (inclusive: at least 4), got {width}"
            )

    def vectors(self, positions: Tensor, width: int) -> Tensor:
        from anyformer.parts.positions.absolute_module import sinusoids

        return sinusoids(positions, width, self)

    def build(self, width: int) -> SinusoidalPositionModule:
        from anyformer.parts.positions.absolute_module import SinusoidalPositionModule

        return SinusoidalPositionModule(self, width)


class SinusoidalGrid(Position):
    """Fixed waves of a patch's column and row, by halves of the features: x_t + [W(t mod n), W(t // n)], n patches per row.

    W(p) (D / 2): the sines, then the cosines, of p * theta^(-4i / D), i < D / 4 (He et al. 2022, MAE, arXiv 2111.06377; DiT,
    arXiv 2212.09748).
    """

    position_name: ClassVar[str] = "sinusoidal"
    kind: Literal["sinusoidal_grid"] = "sinusoidal_grid"
    columns: Count
    """n, patches of a row of the image."""
    theta: Moderate = 10_000.0

    @property
    def across(self) -> int:
        return self.columns

    def sketch(self, width: int) -> Sketch:
        return Sketch("Sinusoidal positions", (f"of rows and of {self.columns:,} columns", f"θ {number(self.theta)}"))

    def check(self, width: int) -> None:
        if width % 4:
            raise ValueError(f"sinusoids of rows and columns pair sines with cosines, so 4 must divide the width, got {width}")

    def vectors(self, positions: Tensor, width: int) -> Tensor:
        from anyformer.parts.positions.absolute_module import grid_sinusoids

        return grid_sinusoids(positions, width, self)

    def build(self, width: int) -> SinusoidalGridModule:
        from anyformer.parts.positions.absolute_module import SinusoidalGridModule

        return SinusoidalGridModule(self, width)
