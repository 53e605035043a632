"""New weights without a dropped stream: texts that go on end with the old ones, those that begin later have the new."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event, Lock

from anyformer.describe import UserError
from anyformer.engines.sequences import SequenceMaker
from anyformer.model.transformer import Transformer
from anyformer.serving.memory_of_states import StateMemory
from anyformer.serving.own_states import OwnStates
from anyformer.serving.served_model import ServedModel
from anyformer.serving.several_states import SeveralStates
from anyformer.serving.states import TextStates
from anyformer.serving.worker import ServingWorker


@dataclass(frozen=True)
class LoadedModels:
    """A model, and the same with each of its adapters. `sequences`: of the engine that computes it, of which `base` then is the
    description alone; None: the model itself."""

    base: Transformer
    adapters: Mapping[str, Transformer] = field(default_factory=dict)
    sequences: SequenceMaker | None = None

    def states(self, memory: StateMemory, length: int) -> tuple[TextStates, dict[str, OwnStates]]:
        """The decode states of their texts."""
        if self.sequences is not None:
            return memory.engine_states(self.base, self.sequences, length), {}
        return memory.states(self.base, length), {name: memory.own_states(each) for name, each in self.adapters.items()}


@dataclass
class Reloading:
    """Loads the weights again by `load`, one at a time, in the thread that asks; between two steps they take the place of the
    old. Both are held while texts go on with the old."""

    model: ServedModel
    worker: ServingWorker
    memory: StateMemory
    load: Callable[[], LoadedModels]
    _lock: Lock = field(default_factory=Lock)

    def __call__(self) -> int:
        """How many texts go on with the old weights. Raises `UserError`, and nothing changes, where the new are of another
        architecture, cannot be read, or do not fit."""
        if not self._lock.acquire(blocking=False):
            raise UserError("the weights are being loaded already: ask again when that is done")
        try:
            loaded = self.load()
            if loaded.base.architecture != self.model.model.architecture:
                raise UserError("the weights are of another architecture than those that are served: start the server anew")
            length = self.model.length
            assert length is not None, "a server of texts bounds them"
            return self._renew(loaded, *loaded.states(self.memory, length))
        finally:
            self._lock.release()

    def _renew(self, loaded: LoadedModels, base: TextStates, adapters: Mapping[str, OwnStates]) -> int:
        """Between two steps."""
        done, problems = Event(), list[Exception]()

        def renew() -> int:
            scheduler = self.worker.scheduler
            states = scheduler.states
            assert isinstance(states, SeveralStates), "it was started with these"
            states.renew(base, adapters)
            self.model.model, self.model.adapters = loaded.base, loaded.adapters
            return scheduler.running

        found = list[int]()

        def told(result: int, problem: Exception | None) -> None:
            if problem is None:
                found.append(result)
            else:
                problems.append(problem)
            done.set()

        self.worker.call(renew, told)
        while not done.wait(1):
            if not self.worker.alive:
                raise UserError("the server stopped before the new weights took the place of the old")
        if problems:
            raise problems[0]
        return found[0]
