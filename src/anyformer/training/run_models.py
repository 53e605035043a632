"""The models of a run: described, divided among its processes, and then given their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from anyformer.model.adapters import begin
from anyformer.model.transformer import Transformer, build
from anyformer.objectives import beside, divides_logits
from anyformer.quantising.planes import materialise_few_bits
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

        None has values before it is divided, but those that `_valued_whole` names.
        """
        model = build(run.architecture, run.plan, "meta").train()
        tune(model, run.tuning, run.seed)

        def valued(made: Transformer) -> Iterable[str]:
            return given(materialise_few_bits(made, device, run.seed))

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
        whole = _valued_whole(run, ranks)
        if whole:
            fill(directly)
        rest(model, run.tuning)
        within = ranks.divide([model, *partners.values()], run.plan, vocabulary=divides_logits(run.objective))
        if not whole:
            fill(partial(ranks.beforehand, within))
        return RunModels(model, partners, learning, within)


def _valued_whole(run: Run, ranks: Ranks) -> bool:
    """Whether models have values before they are divided: where weights are rounded that a cut goes through, that first values
    of an adapter follow from, or that a second model has too."""
    if run.tuning.base == STORED:
        return False
    adapter, mesh = run.tuning.adapter, run.plan.mesh
    cut = max(mesh.tensor, mesh.expert) > 1
    return ranks.size == 1 or cut or bool(beside(run.objective)) or (adapter is not None and adapter.follows)
