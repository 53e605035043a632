"""Pictures of an architecture: its masks and its diagram."""

from anyformer.pictures.diagram import diagram, draw_diagram
from anyformer.pictures.masks import draw_masks
from anyformer.pictures.patterns import masks_of

__all__ = ["diagram", "draw_diagram", "draw_masks", "masks_of"]
