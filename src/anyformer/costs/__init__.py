"""What an architecture costs, before it is built."""

from anyformer.costs.sheet import CostSheet, cost, scaled

__all__ = ["CostSheet", "cost", "scaled"]
