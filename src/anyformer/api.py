"""The public functions that take an architecture in any form: a name, a path, a dictionary or the value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyformer import costs
from anyformer.costs.difference import Difference
from anyformer.costs.difference import difference as differing
from anyformer.costs.match import match as matched
from anyformer.costs.utilisation import flops as counted
from anyformer.costs.utilisation import mfu as utilised
from anyformer.resolving import ArchitectureLike, architecture, resolved

if TYPE_CHECKING:
    from anyformer.model.transformer import Transformer
    from anyformer.transforming import TransformChoices, TransformReport

cost = resolved(costs.cost)
match = resolved(matched)
flops = resolved(counted)
mfu = resolved(utilised)


def difference(left: ArchitectureLike, right: ArchitectureLike, *, batch: int = 1, length: int = 4096) -> Difference:
    """Changes from `left` to `right`: the values that differ, parameters, FLOPs and decode state (16 bits)."""
    return differing(architecture(left), architecture(right), batch=batch, length=length)


def transform(
    model: Transformer, what: ArchitectureLike, choices: TransformChoices | None = None
) -> tuple[Transformer, TransformReport]:
    """A model of the architecture that `what` names, from the weights of `model`, and what became of every weight.

    The model given is left as it is. Raises `TransformError`, before any work, for a change that no weights carry over.
    """
    from anyformer.transforming import transform as transformed

    return transformed(model, architecture(what), choices)
