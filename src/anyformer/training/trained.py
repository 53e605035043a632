"""`Trained`: what a run gave."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from anyformer.checkpoint import load, newest
from anyformer.model.transformer import Transformer
from anyformer.text import Tokenizer
from anyformer.training.evaluate import Evaluated
from anyformer.training.starting_loss import Before
from anyformer.training.summary import Summary


@dataclass(frozen=True)
class Trained:
    """The result of a run: its directory, the model, its tokenizer, and its losses.

    `exit_code`: what a shell expects, 0 unless a signal stopped the run. `prompts`: of the sample, and of a command to
    try next, `chat`: whether these are questions. `deadline`: the reading of the clock at which the run's minutes end.
    """

    directory: Path
    own: Transformer | None
    """The model, where one process trained it."""
    tokenizer: Tokenizer
    step: int
    exit_code: int = 0
    validation: Evaluated | None = None
    baseline: tuple[str, float] | None = None
    """What a model without any context is, and its loss."""
    summary: Summary | None = None
    """Predicted beside measured figures, once the run is finished."""
    prompts: tuple[str, ...] = ()
    chat: bool = False
    before: Before | None = None
    """The model that the run started from."""
    deadline: float | None = None
    divided: bool = False
    """Whether several processes divided the model, which may be larger than what one of them holds."""

    @cached_property
    def model(self) -> Transformer:
        """The model to use, read from the newest checkpoint if several processes trained it."""
        return load(newest(self.directory))[0] if self.own is None else self.own

    @property
    def finished(self) -> bool:
        return self.exit_code == 0
