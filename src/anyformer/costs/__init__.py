"""What an architecture costs, before it is built."""

from anyformer.costs.hardware import HARDWARE, Efficiency, Hardware, hardware_of
from anyformer.costs.roofline import StepTime, step_time
from anyformer.costs.sheet import CostSheet, cost, scaled

__all__ = ["HARDWARE", "CostSheet", "Efficiency", "Hardware", "StepTime", "cost", "hardware_of", "scaled", "step_time"]
