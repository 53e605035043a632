"""The own engine: torch, for every architecture. All others are held against it."""

from __future__ import annotations

from anyformer.engines.engine import Asked, Opened
from anyformer.generation import generating


class OwnEngine:
    """The passes of the model itself."""

    name = "own"
    installed = True

    def open(self, asked: Asked) -> Opened:
        """The model with its weights held as they are asked for."""
        model, tokenizer = asked.loading.taken()
        return Opened(generating(model, asked.weights), tokenizer)
