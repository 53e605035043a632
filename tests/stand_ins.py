"""What runs measure, draw and count, for tests that ask about something else."""

from __future__ import annotations

import base64
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

DOT = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg==")
"""The smallest picture."""


@contextmanager
def measured_once() -> Iterator[None]:
    """A run measures the products of its machine for a quarter of a second, draws its curve for a third, and counts the FLOPs
    of its model for another: inside, products are measured once and curves are a dot. Declared FLOPs stand for counted ones,
    as the contracts hold of every architecture."""
    from anyformer.training import ending, precision, summary

    def undrawn(rows: object, path: Path, **labels: object) -> None:
        path.write_bytes(DOT)

    def declared(architecture: Any, shape: Any, plan: Any) -> tuple[int, int]:
        flops = architecture.trained_cost(shape, plan).total_flops
        return flops.dense, flops.backward

    with (
        mock.patch.object(precision, "_rate", functools.cache(precision._rate)),
        mock.patch.object(ending, "draw_losses", undrawn),
        mock.patch.object(summary, "total_flops", declared),
    ):
        yield
