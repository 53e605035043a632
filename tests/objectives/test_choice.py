"""Which objective suits an architecture where nobody names one."""

from __future__ import annotations

import pytest

from anyformer import catalogue
from anyformer.catalogue import architecture
from anyformer.describe import UserError
from anyformer.objectives import default_objective
from anyformer.training import default_run


@pytest.mark.parametrize("name", [entry.name for entry in catalogue.listing()])
def test_every_entry_has_a_usual_objective_but_captioners(name):
    model = architecture(name)
    if model.two_inputs and model.embedding.symbols is None:
        # Images or sound in, text out: no objective makes such examples.
        with pytest.raises(UserError, match="no objective trains this architecture"):
            default_objective(model)
        return
    objective = default_objective(model)
    run = default_run(model, ("digits",))
    assert run.objective == objective
    assert isinstance(run.data, objective.reads)
