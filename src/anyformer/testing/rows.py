"""Contracts of padding and packing: a row is computed as if it were alone."""

from __future__ import annotations

from unittest import mock

import torch
from torch import Tensor

from anyformer.model import Architecture, transformer
from anyformer.operations import Shape
from anyformer.plan import Plan
from anyformer.testing.comparisons import equal, equal_unless, refusal
from anyformer.testing.inputs import T, inputs, padded, tokens
from anyformer.testing.models import looked_at
from anyformer.testing.traits import limits, one_text, recurrent

DOCUMENTS = ((4, 7), (1, 10))
"""The lengths of two documents in each of two rows."""
SHORT = 5
"""Tokens of the shorter of two rows."""
CHUNK = 2
"""Positions of a chunk, of which some begin with a document and some have its begin inside."""


def plans(architecture: Architecture) -> tuple[Plan, ...]:
    """The plan of a row in one chunk; where a state goes from chunk to chunk, also one of several chunks."""
    return (Plan(), Plan(chunk=CHUNK)) if recurrent(architecture) else (Plan(),)


def padded_row_equals_the_row_alone(architecture: Architecture) -> None:
    """A row with padding on the left, on the right, on both sides or beside a longer row equals the row alone."""
    x, pairs = tokens(architecture), {}
    short = torch.zeros(x.shape, dtype=torch.bool)
    short[0, SHORT:] = True
    for plan in plans(architecture):
        model, said = looked_at(architecture, plan), f"in chunks of {plan.chunk}"
        alone = model(x)
        for left, right in ((4, 0), (0, 3), (2, 1)):
            wide, padding = padded(x, left, right)
            y = model(wide, padding=padding)
            assert y.isfinite().all()
            pairs[f"padded by {left} and {right}, {said}"] = y[:, left : left + T], alone
        pairs[f"beside a longer row, {said}"] = model(x, padding=short)[:1, :SHORT], model(x[:1, :SHORT])
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
    given = inputs(architecture)
    documents = torch.tensor([[number for number, length in enumerate(row) for _ in range(length)] for row in DOCUMENTS])
    reasons = limits(architecture, "packed")
    if reasons:
        model = looked_at(architecture)
        refused = refusal(lambda: model(*given, documents=documents[:, : given[0].shape[1]]))
        assert reasons[0] in refused, f"taken, or refused for another reason than declared: {refused!r}"
        if one_text(architecture) and all(limit.beyond is None for limit in architecture.cost(Shape()).limits):
            _is_not_needless(architecture, given, documents, reasons)
        return
    for plan in plans(architecture):
        model = looked_at(architecture, plan)
        packed = model(*given, documents=documents)
        for row, lengths in enumerate(DOCUMENTS):
            pieces = torch.split(given[0][row : row + 1], list(lengths), 1)
            said = f"documents of {lengths} tokens in one row, in chunks of {plan.chunk}"
            equal(packed[row], torch.cat([model(piece)[0] for piece in pieces]), said)


def _is_not_needless(
    architecture: Architecture, given: tuple[Tensor, ...], documents: Tensor, reasons: tuple[str, ...]
) -> None:
    """Taken in spite of the declared limit, packed documents are not what each is alone."""
    model, pairs = looked_at(architecture), {}
    try:
        with mock.patch.object(transformer, "check_inputs"):
            packed = model(*given, documents=documents)
    except RuntimeError:  # it has no way to compute them
        return
    for row, lengths in enumerate(DOCUMENTS):
        alone = torch.cat([model(piece)[0] for piece in torch.split(given[0][row : row + 1], list(lengths), 1)])
        pairs[f"documents of {lengths} tokens in one row"] = packed[row], alone
    equal_unless(reasons, pairs)
