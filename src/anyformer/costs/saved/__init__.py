"""What a training step saves for its backward pass: read off the built model on paper, remembered, and measured."""

from anyformer.costs.saved.measured import Kept, keeping, kept_by_label, kept_bytes
from anyformer.costs.saved.question import Learning, Question
from anyformer.costs.saved.record import RESIDUAL, Saved, SavedTensor
from anyformer.costs.saved.remembered import saved

__all__ = [
    "RESIDUAL",
    "Kept",
    "Learning",
    "Question",
    "Saved",
    "SavedTensor",
    "keeping",
    "kept_by_label",
    "kept_bytes",
    "saved",
]
