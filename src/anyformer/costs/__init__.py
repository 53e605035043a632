"""What an architecture costs, before it is built."""

from anyformer.costs.sheet import CostSheet, cost

__all__ = ["CostSheet", "cost"]
