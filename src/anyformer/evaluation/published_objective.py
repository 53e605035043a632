"""The objective of a published model that hears sounds, as the files beside its weights say."""

from __future__ import annotations

from pathlib import Path

from anyformer.huggingface.hearing import published_hearing
from anyformer.loading import beside
from anyformer.model import Architecture
from anyformer.objectives import default_objective
from anyformer.objectives.sounds import SoundObjective


def published_objective(path: Path, architecture: Architecture) -> SoundObjective | None:
    """The usual objective of an architecture that hears sounds, as the files beside its weights say that it hears; None where
    they say nothing, or it hears none."""
    found = None if architecture.embedding.sound is None else published_hearing(beside(path))
    if found is None:
        return None
    objective = default_objective(architecture)
    assert isinstance(objective, SoundObjective), "it hears sounds"
    return objective.but(features=found.features, padding="silence")
