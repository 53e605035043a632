"""Tensors that a training step saves for its backward pass: read off the built model on paper, remembered, and measured."""

from anyformer.costs.saved.measured import SavedStorages, saved_by_label, saved_bytes, watching_saved
from anyformer.costs.saved.question import Learning, TracedLoss, TraceQuestion
from anyformer.costs.saved.record import RESIDUAL, SavedTensor
from anyformer.costs.saved.trace_cache import saved

__all__ = [
    "RESIDUAL",
    "Learning",
    "SavedStorages",
    "SavedTensor",
    "TraceQuestion",
    "TracedLoss",
    "saved",
    "saved_by_label",
    "saved_bytes",
    "watching_saved",
]
