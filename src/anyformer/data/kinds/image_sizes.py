"""The size of images that suits an architecture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyformer.describe import InputError

if TYPE_CHECKING:
    from anyformer.model import Architecture

POSITIONS = 256
"""Positions of an image at most, where no position table and nobody else says its size."""
SQUARE = 16
"""Pixels of a side where each becomes a vector: `POSITIONS` of them."""


def image_size(architecture: Architecture) -> tuple[int, int]:
    """(channels, pixels of a side): those of its tower, or the largest square images that its embedding takes; of an
    architecture that reads vectors, colours of `SQUARE` pixels."""
    if architecture.images is not None:
        return architecture.images.patches.channels, architecture.images.image
    return largest_square(architecture) if architecture.embedding.rank == 4 else (3, SQUARE)


def largest_square(architecture: Architecture) -> tuple[int, int]:
    """(channels, pixels of a side) of the largest square images for which the stack that reads them has positions; of
    `POSITIONS` at most, where it has no table of them."""
    import torch

    embedding = architecture.embedding
    _, channels, side, _ = embedding.example(1, 1).shape
    most = embedding.longest or next(iter(architecture.stacks.values())).max_length or POSITIONS

    def fits(squares: int) -> bool:
        size = (1, channels, squares * side, squares * side)
        try:
            return embedding.check("images", torch.empty(size, device="meta"), None) <= most
        except InputError:  # beyond the table of an encoder of its own
            return False

    squares = max((count for count in range(1, most) if count * count <= most and fits(count)), default=1)
    return channels, squares * side
