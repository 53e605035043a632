"""The models of a run: described, divided among its processes, and then given their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from anyformer.model import Transformer, build, materialise
from anyformer.model.adapters import begin
from anyformer.objectives import divides_logits
from anyformer.text import Tokenizer
from anyformer.training.adapting import rest, tune
from anyformer.training.computing_place import Within, directly
from anyformer.training.parallel.ranks import Ranks
from anyformer.training.partners import second_models
from anyformer.training.run import Run
from anyformer.training.starting import STORED

Given = Callable[[Transformer], Iterable[str]]
"""Gives a model weights of another one, and says which."""


@dataclass(frozen=True)
class RunModels:
    """The model of a run with what learns in it, the second models of its objective, and those of them that learn too.

    `within`: where they compute, whose weights may be divided.
    """

    model: Transformer
    partners: Mapping[str, Transformer]
    learning: Mapping[str, Transformer]
    within: Within

    @staticmethod
    def start(
        run: Run,
        tokenizer: Tokenizer,
        device: torch.device,
        given: Given,
        begun: Path | None,
        ranks: Ranks,
        say: Callable[[str], None],
    ) -> RunModels:
        """The models before the first update; arguments as of `Trainer.start`.

        None has values before it is divided, unless weights that do not learn are in few bits.
        """
        model = build(run.architecture, run.plan, "meta").train()
        tune(model, run.tuning, run.seed)

        def valued(made: Transformer) -> Iterable[str]:
            return given(materialise(made, device, run.seed))

        def as_begun(made: Transformer) -> None:
            valued(made)
            rest(made, run.tuning)

        def fill(compute: Within) -> None:
            for line in valued(model):
                say(line)
            for second in seconds.values():
                second.fill()
            begin(model, run.seed, compute)

        seconds = second_models(run, tokenizer, device, as_begun, begun)
        partners = {name: second.model for name, second in seconds.items()}
        learning = {name: second.model for name, second in seconds.items() if second.learns}
        whole = run.tuning.base != STORED
        if whole:
            fill(directly)
            rest(model, run.tuning)
        within = ranks.divide([model, *partners.values()], run.plan, vocabulary=divides_logits(run.objective))
        if not whole:
            fill(partial(ranks.beforehand, within))
        return RunModels(model, partners, learning, within)
