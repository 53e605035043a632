"""What a model is trained to do: one objective, one file."""

from anyformer.objectives.causal import CausalObjective, Examples, Objective

__all__ = ["CausalObjective", "Examples", "Objective"]
