"""What a model is trained to do: one objective, one file."""

from anyformer.objectives.causal import CausalObjective, Examples, token_losses

__all__ = ["CausalObjective", "Examples", "token_losses"]
