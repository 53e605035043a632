"""The shared expert: a network that every token passes beside the experts that it chose."""

from __future__ import annotations

from typing import Literal

from anyformer.describe import Value
from anyformer.parts.feedforward.feedforward import FeedForward


class SharedExpert(Value):
    """A feed-forward network that every token passes beside the experts it chose (DeepSeekMoE, arXiv 2401.06066).

    With `gate = "sigmoid"` its output is multiplied by sigmoid(x W_g), W_g: (1, D) (Qwen 2 MoE, arXiv 2407.10671). Several
    shared experts are one of their summed width.
    """

    feedforward: FeedForward
    gate: Literal["sigmoid"] | None = None
    join: Literal["sum", "mean"] = "sum"
    """How its output joins that of the experts chosen: their sum, or half of it (Cohere 2 MoE)."""
