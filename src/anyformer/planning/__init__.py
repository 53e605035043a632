"""How training and serving are spread over accelerators: what each rank holds, sends and waits for, the fastest that fit."""

from anyformer.planning.layout import Layout
from anyformer.planning.planner import Candidate, Planned, plan_training, price_layout
from anyformer.planning.serving import Service, serve
from anyformer.planning.tuned import Choice, choices

__all__ = ["Candidate", "Choice", "Layout", "Planned", "Service", "choices", "plan_training", "price_layout", "serve"]
