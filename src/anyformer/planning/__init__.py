"""How training is spread over accelerators: what each rank holds, sends and waits for, and the fastest layouts that fit."""

from anyformer.planning.layout import Layout
from anyformer.planning.planner import Candidate, Planned, evaluate, plan_training

__all__ = ["Candidate", "Layout", "Planned", "evaluate", "plan_training"]
