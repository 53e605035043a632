"""The costs of an architecture, before it is built.

Resolved at first use: figures and tables that were worked out before are printed without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyformer.costs.budget import Budget, budget_of
    from anyformer.costs.figures import scaled
    from anyformer.costs.match import UnmatchedError
    from anyformer.costs.named_hardware import hardware_of
    from anyformer.costs.peak import peak_memory
    from anyformer.costs.pricing import cost
    from anyformer.costs.roofline import step_time
    from anyformer.costs.sheet import CostSheet

_HOMES = {
    "Budget": "budget",
    "CostSheet": "sheet",
    "UnmatchedError": "match",
    "budget_of": "budget",
    "cost": "pricing",
    "hardware_of": "named_hardware",
    "peak_memory": "peak",
    "scaled": "figures",
    "step_time": "roofline",
}

__all__ = [
    "Budget",
    "CostSheet",
    "UnmatchedError",
    "budget_of",
    "cost",
    "hardware_of",
    "peak_memory",
    "scaled",
    "step_time",
]


def __getattr__(name: str) -> Any:
    if home := _HOMES.get(name):
        return getattr(import_module(f"anyformer.costs.{home}"), name)
    raise AttributeError(f"module 'anyformer.costs' has no attribute {name!r}")
