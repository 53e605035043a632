"""The public functions that take an architecture in any form: a name, a path, a dictionary or the value."""

from __future__ import annotations

from anyformer import costs, differences, model
from anyformer.resolving import ArchitectureLike, architecture, resolved

build = resolved(model.build)
cost = resolved(costs.cost)
match = resolved(costs.match)


def difference(
    left: ArchitectureLike, right: ArchitectureLike, *, batch: int = 1, length: int = 4096
) -> differences.Difference:
    """Changes from `left` to `right`: the values that differ, parameters, FLOPs and decode state (16 bits)."""
    return differences.difference(architecture(left), architecture(right), batch=batch, length=length)
