"""The verbs of the public API that take an architecture in any form: a name, a path, a dictionary or the value."""

from __future__ import annotations

from anyformer import costs, differences, model
from anyformer.resolving import What, architecture, resolved

build = resolved(model.build)
cost = resolved(costs.cost)
match = resolved(costs.match)


def difference(left: What, right: What, *, batch: int = 1, length: int = 4096) -> differences.Difference:
    """What changes from `left` to `right`: the values that differ, and parameters, FLOPs and decode state (16 bits)."""
    return differences.difference(architecture(left), architecture(right), batch=batch, length=length)
