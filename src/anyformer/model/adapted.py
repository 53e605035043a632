"""The architecture of a model with an adapter."""

from __future__ import annotations

from anyformer.describe import change_all
from anyformer.model.architecture import Architecture
from anyformer.tuning import Adapter


def adapted(architecture: Architecture, adapter: Adapter | None) -> Architecture:
    """The architecture of the plain model that computes what one of `architecture` and its adapter do.

    Raises `DescriptionError` where it has no place for what the adapter adds.
    """
    return architecture if adapter is None else change_all(architecture, adapter.changes)
