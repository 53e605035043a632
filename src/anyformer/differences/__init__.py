"""The differences between two architectures."""

from anyformer.differences.difference import Change, Difference, difference

__all__ = ["Change", "Difference", "difference"]
