"""A row is computed as if it were alone: padding beside it, or other documents in it."""

from __future__ import annotations

import torch

from anyformer.model import Architecture, build
from anyformer.testing.close import equal, equal_unless, refusal
from anyformer.testing.inputs import T, inputs, padded, tokens
from anyformer.testing.traits import limits

DOCUMENTS = ((4, 7), (1, 10))
"""Two rows of two documents each, by their lengths."""


def padded_row_equals_the_row_alone(architecture: Architecture) -> None:
    """Padding on the left, on the right, on both sides."""
    model, x = build(architecture).eval(), tokens(architecture)
    alone, reasons = model(x), limits(architecture, "padded")
    for left, right in ((4, 0), (0, 3), (2, 1)):
        wide, padding = padded(x, left, right)
        y = model(wide, padding=padding)
        assert y.isfinite().all()
        equal_unless(reasons, y[:, left : left + T], alone, f"padded by {left} and {right}")


def padded_source_equals_the_source_alone(architecture: Architecture) -> None:
    """Of two inputs."""
    model = build(architecture).eval()
    source, target = inputs(architecture)
    wide, padding = padded(source, 2, 3)
    ours, alone = model(wide, target, padding=padding), model(source, target)
    equal_unless(limits(architecture, "padded"), ours, alone, "a padded source")


def packed_documents_equal_each_alone(architecture: Architecture) -> None:
    """Or packing is refused with the reason declared."""
    model, given = build(architecture).eval(), inputs(architecture)
    documents = torch.tensor([[number for number, length in enumerate(row) for _ in range(length)] for row in DOCUMENTS])
    reasons = limits(architecture, "packed")
    if reasons:
        refused = refusal(lambda: model(*given, documents=documents[:, : given[0].shape[1]]))
        assert reasons[0] in refused, f"taken, or refused for another reason than declared: {refused!r}"
        return
    packed = model(*given, documents=documents)
    for row, lengths in enumerate(DOCUMENTS):
        pieces = torch.split(given[0][row : row + 1], list(lengths), 1)
        equal(packed[row], torch.cat([model(piece)[0] for piece in pieces]), f"documents of {lengths} tokens in one row")
