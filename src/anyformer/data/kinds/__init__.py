"""Kinds of data, one in each file; a class enters the registry of `Data` by being defined."""

from anyformer.data.kinds.labelled import Labelled
from anyformer.data.kinds.mixture import Component, Mixture
from anyformer.data.kinds.pairs import Pairs

__all__ = ["Component", "Labelled", "Mixture", "Pairs"]
