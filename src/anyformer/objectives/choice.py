"""The objective that suits an architecture, where nobody names one."""

from __future__ import annotations

from anyformer.data.recognising import SPOKEN, recognised
from anyformer.model import Architecture
from anyformer.objectives.causal import CausalObjective
from anyformer.objectives.objective import Objective
from anyformer.requirements.usual import usual_for


def default_objective(architecture: Architecture) -> Objective:
    """The first usual objective that the architecture can be trained with; `UserError` with the reasons if there is none."""
    kind = Objective.kinds[usual_for(architecture).kind]
    assert issubclass(kind, Objective)
    return kind.usual(architecture, {})


def usual_objective(architecture: Architecture, paths: tuple[str, ...]) -> str | None:
    """The objective that records are usually read for, where they are chats and the model goes on with text; else None."""
    found = recognised(paths)
    asked = None if found is None else SPOKEN.get(found.form.kind)
    return asked if asked is not None and usual_for(architecture).kind == CausalObjective().kind else None
