"""Training objectives, one in each file."""

from anyformer.objectives.causal import CausalObjective, Examples, Objective

__all__ = ["CausalObjective", "Examples", "Objective"]
