"""Tensors that a training step saves for its backward pass: read off the built model on paper, and remembered."""

from anyformer.costs.saved.question import Learning, TracedLoss, TraceQuestion
from anyformer.costs.saved.record import RESIDUAL, SavedTensor
from anyformer.costs.saved.trace_cache import saved

__all__ = [
    "RESIDUAL",
    "Learning",
    "SavedTensor",
    "TraceQuestion",
    "TracedLoss",
    "saved",
]
