"""Images of any size among the tokens of a text, which have positions on three axes: Qwen-VL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from anyformer.describe import Count, InputError
from anyformer.operations import Tally
from anyformer.parts.images.encoder import ImageEncoder
from anyformer.parts.images.resampled import ResampledPosition
from anyformer.parts.norms.norm import Norm
from anyformer.parts.sketch import Sketch
from anyformer.plan import Plan

if TYPE_CHECKING:
    from torch import Tensor

    from anyformer.parts.images.encoder_module import Images
    from anyformer.parts.images.grid_module import GridTowerModule


AXES = 3
"""Time, height and width."""


class GridTower(ImageEncoder):
    """Images (I, height, width), each with its own size: as many tokens as the projector makes of its patches.

    Layers tell patches apart by row and column (rotary positions with two `axes`). In the text an image has one position in
    time, and its rows and columns count from there on (M-RoPE): a token is at (t, t + row, t + column), and the text behind an
    image of r x c tokens goes on at t + max(r, c). Wang et al. 2024, "Qwen2-VL" (arXiv 2409.12191), section 2.1.
    """

    kind: Literal["grid"] = "grid"
    window: Annotated[int, Field(ge=1)] | None = None
    """Patches along the side of windows, whose patches stand one after the other: `Chunk` of its square is a mask of
    windows (Qwen2.5-VL, arXiv 2502.13923)."""
    sequence: Literal["squares", "rows"] = "squares"
    """How patches stand in the layers: the squares that the projector reads one after the other, or row by row, from which the
    projector's squares are gathered. Without a mask that reads order (`Chunk`) it changes rounding alone."""
    patch_norm: Norm | None = None
    """Norm of the patches before their positions are added (GLM-4.1V)."""
    position: ResampledPosition | None = None
    """Learned positions of patches, beside or without those that turn."""
    counted: Literal["axes", "line"] = "axes"
    """How the tokens of an image are counted in the text: on the three axes above, or one after the other (Pixtral)."""
    breaks: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]] | None = None
    """Tokens of the text behind every row of an image but the last, and behind the last one (Pixtral)."""
    image: Count = 448

    @model_validator(mode="after")
    def _fits_together(self) -> GridTower:
        if self.image % self.unit:
            raise ValueError(f"images of {self.image} pixels do not divide into squares of {self.unit}")
        if self.window is not None and self.window % self.projector.square:
            raise ValueError(f"windows of {self.window} patches do not divide into squares of {self.projector.square}")
        if self.window is not None and self.sequence == "rows":
            raise ValueError("sequence = 'rows': windows stand one after the other: leave sequence or window out")
        if self.patches.class_tokens:
            raise ValueError(f"patches.class_tokens = {self.patches.class_tokens}: a grid has none")
        if self.patches.coordinates is not None:
            raise ValueError("patches.coordinates: a grid counts rows and columns itself: leave them out")
        if self.stack.max_length is not None:
            raise ValueError(
                "stack.position: images of any size have no table of positions; give its attention rotary axes, or set position"
            )
        self.check_fields()
        return self

    @property
    def unit(self) -> int:
        """Pixels of which the sides of an image are multiples."""
        return self.patches.size * self.projector.square

    @property
    def facts(self) -> str:
        return (
            f"sides of any multiple of {self.unit} pixels; one of {self.image:,} x {self.image:,} is {self.tokens:,} tokens, "
            f"of which one sees its image up to itself{self.deep_facts}"
        )

    def grid(self, image: Tensor) -> tuple[int, int]:
        """Rows and columns of an image's tokens."""
        return image.shape[-2] // self.unit, image.shape[-1] // self.unit

    def sizes(self, images: Images) -> list[int]:
        return [rows * columns for rows, columns in map(self.grid, images)]

    def written(self, images: Images) -> list[list[int]]:
        if self.breaks is None:
            return super().written(images)
        between, end = self.breaks
        return [[*([*[self.token] * columns, between] * rows)[:-1], end] for rows, columns in map(self.grid, images)]

    def check_images(self, images: Images) -> None:
        from torch import Tensor

        wanted = f"({self.patches.channels}, height, width) of multiples of {self.unit} pixels"
        if len(images) == 0:
            raise InputError("there is no image among images: leave them out")
        for number, image in enumerate(images):
            if not isinstance(image, Tensor) or not image.is_floating_point():
                kind = image.dtype if isinstance(image, Tensor) else type(image).__name__
                raise InputError(f"images should be tensors of real numbers {wanted}, and number {number} is {kind}")
            fits = image.dim() == 3 and image.shape[0] == self.patches.channels and 0 not in image.shape
            if not fits or image.shape[1] % self.unit or image.shape[2] % self.unit:
                raise InputError(
                    f"images should have shape {wanted}, and number {number} has {tuple(image.shape)}: resize or crop it"
                )

    def beside_cost(self, images: int) -> dict[str, Tally]:
        parts = {} if self.position is None else {"position": self.position.cost(self.width)}
        norm = self.patch_norm
        return parts if norm is None else {**parts, "patch_norm": norm.cost(self.width, images * self.positions)}

    def beside_sketches(self) -> tuple[Sketch, ...]:
        return () if self.position is None else (self.position.sketch(self.width),)

    def build(self, width: int, plan: Plan, name: str) -> GridTowerModule:
        from anyformer.parts.images.grid_module import GridTowerModule

        return GridTowerModule(self, width, plan, name)
