"""The own engine: torch, for every architecture. All others are held against it."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.engines.engine import Asked, Opened
from anyformer.generation import generating


@dataclass(frozen=True)
class OwnEngine:
    """The passes of the model itself. `laid_out`: its weights as products of few rows read them fastest; they learn no more."""

    laid_out: bool = True
    name = "own"
    installed = True

    def open(self, asked: Asked) -> Opened:
        """The model with its weights held as they are asked for."""
        model, tokenizer = asked.loading.taken()
        return Opened(generating(model, asked.weights) if self.laid_out else model, tokenizer)


OWN = OwnEngine()
AS_LOADED = OwnEngine(laid_out=False)
