"""How training and serving are spread over accelerators: what a rank holds, sends and waits for, the fastest that fit."""

from anyformer.planning.layout import Layout
from anyformer.planning.planner import price_layout

__all__ = ["Layout", "price_layout"]
