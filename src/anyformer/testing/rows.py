"""Contracts of padding and packing: a row is computed as if it were alone."""

from __future__ import annotations

import torch

from anyformer.model import Architecture
from anyformer.testing.comparisons import equal, equal_unless, refusal
from anyformer.testing.inputs import T, inputs, padded, tokens
from anyformer.testing.models import looked_at
from anyformer.testing.traits import limits

DOCUMENTS = ((4, 7), (1, 10))
"""The lengths of two documents in each of two rows."""
SHORT = 5
"""Tokens of the shorter of two rows."""


def padded_row_equals_the_row_alone(architecture: Architecture) -> None:
    """A row with padding on the left, on the right, on both sides or beside a longer row equals the row alone."""
    model, x = looked_at(architecture), tokens(architecture)
    alone, pairs = model(x), {}
    for left, right in ((4, 0), (0, 3), (2, 1)):
        wide, padding = padded(x, left, right)
        y = model(wide, padding=padding)
        assert y.isfinite().all()
        pairs[f"padded by {left} and {right}"] = y[:, left : left + T], alone
    short = torch.zeros(x.shape, dtype=torch.bool)
    short[0, SHORT:] = True
    pairs["beside a longer row"] = model(x, padding=short)[:1, :SHORT], model(x[:1, :SHORT])
    equal_unless(limits(architecture, "padded"), pairs)


def padded_source_equals_the_source_alone(architecture: Architecture) -> None:
    """A padded source gives the logits of the source alone."""
    model = looked_at(architecture)
    source, target = inputs(architecture)
    wide, padding = padded(source, 2, 3)
    pair = model(wide, target, padding=padding), model(source, target)
    equal_unless(limits(architecture, "padded"), {"a padded source": pair})


def packed_documents_equal_each_alone(architecture: Architecture) -> None:
    """Documents packed into one row equal each alone, or packing is refused with the declared reason."""
    model, given = looked_at(architecture), inputs(architecture)
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
