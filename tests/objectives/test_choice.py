"""Which objective suits an architecture where nobody names one."""

from __future__ import annotations

import pytest

from anyformer import catalogue
from anyformer.catalogue import architecture
from anyformer.describe import UserError
from anyformer.describe.docstrings import first_sentence
from anyformer.model import Architecture
from anyformer.objectives import Objective, default_objective
from anyformer.requirements.usual import USUAL
from anyformer.training import default_run


@pytest.mark.parametrize("lineage", sorted({entry.lineage for entry in catalogue.listing()}))
def test_every_entry_has_a_usual_objective_but_captioners(lineage):
    for name in (entry.name for entry in catalogue.listing() if entry.lineage == lineage):
        usual(architecture(name))


def usual(model: Architecture) -> None:
    """Fails where the objective that suits `model` is not the one of its default run."""
    if model.two_inputs and model.embedding.symbols is None:
        # Images or sound in, text out: no objective makes such examples.
        with pytest.raises(UserError, match="no objective trains this architecture"):
            default_objective(model)
        return
    objective = default_objective(model)
    run = default_run(model, ("digits",))
    assert run.objective == objective
    assert isinstance(run.data, objective.reads)


def refusal(check, model: Architecture) -> str | None:
    try:
        check(model)
    except ValueError as error:
        return str(error)
    return None


def test_the_usual_objectives_are_the_objectives():
    """What is known of them without torch is what their classes say and require."""
    models = [
        architecture(name, tiny=True) for name in ("gpt2", "bert-base-uncased", "t5-small", "vit-base-16", "electra-small")
    ]
    for usual in USUAL:
        objective = Objective.kinds[usual.kind]()
        assert usual.says == first_sentence(type(objective)), usual.kind
        assert usual.two_inputs == objective.traits.two_inputs, usual.kind
        for model in models:
            assert refusal(usual.check, model) == refusal(objective.check, model), usual.kind
