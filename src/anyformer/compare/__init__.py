"""Architectures beside each other."""

from anyformer.compare.difference import Change, Difference, difference

__all__ = ["Change", "Difference", "difference"]
