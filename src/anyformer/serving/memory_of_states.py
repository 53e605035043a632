"""How the decode states of a server are held, and how much memory they may take."""

from __future__ import annotations

from dataclasses import dataclass

from anyformer.costs.available import free_memory
from anyformer.describe import InputError, UserError
from anyformer.engines.sequences import SequenceMaker
from anyformer.generation.checks import check_model
from anyformer.generation.decode import chunk_of
from anyformer.generation.recorded import MULTIPLE, RecordedDecode
from anyformer.generation.steps import best_run
from anyformer.model.transformer import Transformer
from anyformer.serving.engine_states import EngineStates, engine_bytes
from anyformer.serving.own_states import OwnStates
from anyformer.serving.prompt_prefixes import PromptPrefixes
from anyformer.serving.shared_rows import SharedRows, rows_bytes
from anyformer.serving.states import TextStates, side_by_side

LENGTH = 4096
"""Positions of a text at most where nobody says how many."""
SHARE = 0.5
"""Of free memory, what decode states may take where nobody says how much."""

PREFIXES = 8
"""Of that the part which is taken beside it for beginnings of prompts."""


@dataclass(frozen=True)
class StateMemory:
    """What may be said of it. `places`: texts that share steps; `length`: positions of each; `memory`: bytes of all states;
    `own`: every text has a state of its own; `chunk`: tokens of a prompt that are read between two steps."""

    places: int = 8
    length: int | None = None
    memory: int | None = None
    own: bool = False
    chunk: int | None = None
    prefixes: int | None = None
    """Bytes of the states behind beginnings of prompts, kept for later ones; 0 keeps none."""

    def longest(self, model: Transformer, trained: int | None) -> int:
        """Positions of a text at most. Raises `UserError` where the model has fewer."""
        table = model.architecture.output_stack.max_length
        if self.length is not None and table is not None and self.length > table:
            raise UserError(
                f"--length {self.length:,} is beyond the model's table of {table:,} positions: give at most as many"
            )
        return self.length or min(each for each in (table, trained, LENGTH) if each is not None)

    def own_states(self, model: Transformer) -> OwnStates:
        """The states of texts that each have their own."""
        return OwnStates(model, self._total(model), self.chunk)

    def _total(self, model: Transformer) -> int:
        return int(SHARE * free_memory(model.device)) if self.memory is None else self.memory

    def states(self, model: Transformer, length: int) -> TextStates:
        """The states, allocated as far as they are shared. Raises `UserError` where memory lacks."""
        total = self._total(model)
        try:
            check_model(model)
        except InputError:
            return OwnStates(model, 0)  # which refuses every text with the reason
        kept = PromptPrefixes(model, chunk_of(model, self.chunk), total // PREFIXES if self.prefixes is None else self.prefixes)
        if self.own or side_by_side(model) is not None:
            return OwnStates(model, total, self.chunk, kept)
        self._check(rows_bytes(model, self.places, length, MULTIPLE), length, total)
        return SharedRows(model, self.places, length, self.chunk, RecordedDecode(run=best_run()), MULTIPLE, kept)

    def engine_states(self, model: Transformer, make: SequenceMaker, length: int) -> EngineStates:
        """The states of texts that another engine computes. Raises `UserError` where memory lacks."""
        self._check(engine_bytes(model, self.places, length), length, self._total(model))
        return EngineStates(model, make, self.places, length, self.chunk)

    def _check(self, needed: int, length: int, total: int) -> None:
        """Refuse rows for which memory lacks."""
        if needed > total:
            whose = "half of what is free" if self.memory is None else "--memory"
            raise UserError(
                f"{self.places} texts of {length:,} positions take {needed:,} bytes of state, and {total:,} may be taken "
                f"({whose}): give a smaller --places or --length, or more --memory"
            )
