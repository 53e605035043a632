"""What an architecture costs, before it is built."""

from anyformer.costs.budget import Budget, budget_of
from anyformer.costs.figures import scaled
from anyformer.costs.match import UnmatchedError, match
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.peak import peak_memory
from anyformer.costs.pricing import cost
from anyformer.costs.roofline import step_time
from anyformer.costs.sheet import CostSheet

__all__ = [
    "Budget",
    "CostSheet",
    "UnmatchedError",
    "budget_of",
    "cost",
    "hardware_of",
    "match",
    "peak_memory",
    "scaled",
    "step_time",
]
