"""Projections of the stream that a short convolution may follow, each with weights of its own: what they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from anyformer.operations import Shape, Tally, matrix, total
from anyformer.parts.recurrence.short_convolution import ShortConvolution
from anyformer.parts.sketch import Cell

if TYPE_CHECKING:
    import torch

    from anyformer.parts.call.recurrent_state import ConvolutionState


def projections(widths: Mapping[str, int], convolution: ShortConvolution | None, width: int, shape: Shape) -> Tally:
    """Weights and work of projections (D -> features, by name) and of the convolutions behind them."""
    rows, parts = shape.rows, Tally()
    for name, features in widths.items():
        parts += matrix(name, width, features, rows, role="column")
    if convolution is None:
        return parts
    return parts + total({f"{name}_convolution": convolution.cost(features, rows) for name, features in widths.items()})


def convolution_cell(convolution: ShortConvolution | None) -> Cell | None:
    """The picture of a convolution, if there is one."""
    return None if convolution is None else Cell(convolution.words, "mix")


def recent_elements(widths: Mapping[str, int], convolution: ShortConvolution | None, batch: int) -> int:
    """Numbers of the width of activations that the decode state holds for the convolutions."""
    return 0 if convolution is None else sum(convolution.state_elements(features, batch) for features in widths.values())


def recent_inputs(
    widths: Mapping[str, int], convolution: ShortConvolution | None, batch: int, dtype: torch.dtype, device: torch.device
) -> dict[str, ConvolutionState]:
    """The convolutions' states, by the names of the projections."""
    if convolution is None:
        return {}
    return {name: convolution.state(features, batch, dtype, device) for name, features in widths.items()}
