"""The contract of saved tensors, whose bytes at long lengths are priced from those at shorter ones."""

from __future__ import annotations

from anyformer.costs.saved import TraceQuestion
from anyformer.costs.saved.tracing import trace
from anyformer.model import Architecture
from anyformer.plan import Plan
from anyformer.precision import Bf16
from anyformer.testing.inputs import shape

CHUNK = 2
LENGTHS = (8, 16, 24, 32)
"""Positions of several full chunks: the first and the last of a text may save less than those between them."""


def saved_bytes_are_a_polynomial_of_the_length(architecture: Architecture) -> None:
    """From chunk to chunk, saved bytes grow as a polynomial of degree two: `costs/saved` extrapolates them to long texts."""
    plan = Plan(precision=Bf16(), chunk=CHUNK)
    traces = (trace(TraceQuestion(architecture, shape(architecture, length), plan)) for length in LENGTHS)
    first, second, third, fourth = (sum(tensor.bytes for tensor in saved.of("saved", "copy")) for saved in traces)
    expected = first + 3 * (third - second)
    assert fourth == expected, (
        f"training saves {first}, {second}, {third} and {fourth} bytes at {LENGTHS} positions, where {expected} follow for the "
        f"last from the others; long texts are priced by that law, so save as much in every chunk of `plan.chunk` positions"
    )
