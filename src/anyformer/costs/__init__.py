"""What an architecture costs, before it is built."""

from anyformer.costs.activations import Activations, activations
from anyformer.costs.budget import Budget, budget_of
from anyformer.costs.explain import explain
from anyformer.costs.figures import scaled
from anyformer.costs.hardware import HARDWARE, Efficiency, Hardware
from anyformer.costs.holding import Holding
from anyformer.costs.inference import FORMATS, decode_state, read_per_step, weight_bytes
from anyformer.costs.match import Match, UnmatchedError, match
from anyformer.costs.memory import States
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.peak import PeakMemory, peak_memory
from anyformer.costs.pricing import cost
from anyformer.costs.roofline import StepTime, step_time
from anyformer.costs.sheet import CostSheet
from anyformer.costs.sizing import compute_optimal, optimal_tokens, remarks

__all__ = [
    "FORMATS",
    "HARDWARE",
    "Activations",
    "Budget",
    "CostSheet",
    "Efficiency",
    "Hardware",
    "Holding",
    "Match",
    "PeakMemory",
    "States",
    "StepTime",
    "UnmatchedError",
    "activations",
    "budget_of",
    "compute_optimal",
    "cost",
    "decode_state",
    "explain",
    "hardware_of",
    "match",
    "optimal_tokens",
    "peak_memory",
    "read_per_step",
    "remarks",
    "scaled",
    "step_time",
    "weight_bytes",
]
