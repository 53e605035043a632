"""The decoder of masked patches: from features of the patches that were seen to the pixels of all (MAE, 2111.06377)."""

from __future__ import annotations

from math import gcd

from anyformer.model import Architecture, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    Features,
    FeedForward,
    Head,
    LayerNorm,
    LearnedPosition,
    Projection,
    SinusoidalPosition,
    pre_norm,
)
from anyformer.requirements.image_needs import needs_cells, needs_features_of_positions, needs_images

HEAD = 32
"""Features of a head, as in MAE's decoder of 512 features and 16 heads."""


def pixel_decoder(encoder: Architecture, narrower: int, depth: int) -> Architecture:
    """A pre-norm transformer `narrower` times narrower than the encoder, of `depth` layers, with as many positions.

    It reads the encoder's features, and beside them whether a patch was hidden, whose weights with the bias are the vector of
    all hidden patches.
    """
    cells = encoder.embedding.cells
    assert cells is not None, "checked before"
    width = max(2, encoder.width // narrower // 2 * 2)
    norm, longest = LayerNorm(eps=1e-6), encoder.output_stack.max_length
    attention = Attention(
        heads=gcd(width, max(width // HEAD, 1)),
        mask=Bidirectional(),
        project=Projection(bias=("query", "key", "value", "output")),
    )
    network = FeedForward(width=4 * width, activation="gelu", gated=False, bias=("up", "down"))
    return encoder_only(
        Features(features=encoder.width + 1),
        width,
        [pre_norm(norm, attention, network)] * depth,
        position=SinusoidalPosition() if longest is None else LearnedPosition(length=longest),
        final_norm=norm,
        head=Head(outputs=cells.numbers, bias=True),
    )


def check_pixel_decoder(decoder: Architecture, encoder: Architecture) -> None:
    """Refuse a decoder that does not turn the encoder's features into the pixels of every patch."""
    cells = encoder.embedding.cells
    assert cells is not None, "checked before"
    head, features = decoder.head, encoder.width + 1
    if decoder.two_inputs or decoder.latents is not None or decoder.embedding.rank != 3:
        raise ValueError("objective.decoder should be an encoder of vectors: give it embedding.kind = 'features'")
    if (found := decoder.embedding.example(1, 1).shape[2]) != features:
        raise ValueError(
            f"objective.decoder reads vectors of {found} numbers, and gets the encoder's {encoder.width} features and whether "
            f"a patch was hidden: set objective.decoder.embedding.features = {features}"
        )
    if head is None or head.pool is not None or decoder.outputs != cells.numbers:
        raise ValueError(
            f"objective.decoder should give the {cells.numbers} numbers of a patch at every position, and its head gives "
            f"{decoder.outputs}{' for a whole row' if head is not None and head.pool else ''}: set objective.decoder.head = "
            f"{{outputs = {cells.numbers}}}"
        )


def needs_visible_patches(objective: str, architecture: Architecture) -> None:
    """Refuse an architecture that does not give features of every patch of an image."""
    needs_images(objective, architecture)
    needs_cells(objective, architecture)
    needs_features_of_positions(objective, architecture)
