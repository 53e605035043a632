"""What an architecture costs, before it is built."""

from anyformer.costs.activations import Activations, activations
from anyformer.costs.memory import States, TrainingMemory, training_memory
from anyformer.costs.sheet import CostSheet, cost, scaled

__all__ = ["Activations", "CostSheet", "States", "TrainingMemory", "activations", "cost", "scaled", "training_memory"]
