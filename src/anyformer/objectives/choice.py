"""The objective that suits an architecture, where nobody names one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.data.recognising import HEARD, RATED, SHOWN, SPOKEN, recognised
from anyformer.model import Architecture
from anyformer.objectives.causal import CausalObjective
from anyformer.objectives.objective import Objective
from anyformer.objectives.regression import RegressionObjective
from anyformer.requirements.usual import usual_for


def default_objective(architecture: Architecture) -> Objective:
    """The first usual objective that the architecture can be trained with; `UserError` with the reasons if there is none."""
    kind = Objective.kinds[usual_for(architecture).kind]
    assert issubclass(kind, Objective)
    return suited(kind, architecture, {})


def suited(kind: type[Objective], architecture: Architecture, fields: Mapping[str, Any]) -> Objective:
    """The objective of a kind with these fields, and with others as they suit an architecture."""
    return kind.parse({**kind.parse(dict(fields)).usual.fields(architecture), **fields})


def usual_objective(architecture: Architecture, paths: tuple[str, ...]) -> str | None:
    """The objective that records are usually read for, where the model goes on with text, and they are chats, or texts beside
    images or sounds that it reads too; or where it gives one number, and they are preferences; else None."""
    found = recognised(paths)
    usual = None if found is None else usual_for(architecture).kind
    if found is not None and usual == RegressionObjective().kind:
        return RATED.get(found.form.kind)
    if found is None or usual != CausalObjective().kind:
        return None
    shown = None if architecture.images is None else SHOWN.get(found.form.kind)
    heard = None if architecture.audio is None else HEARD.get(found.form.kind)
    return shown or heard or SPOKEN.get(found.form.kind)
