"""What a model is trained to do: one objective, one file."""

from anyformer.objectives.causal import IGNORED, CausalObjective, Examples, token_losses

__all__ = ["IGNORED", "CausalObjective", "Examples", "token_losses"]
