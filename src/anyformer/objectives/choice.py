"""The objective that suits an architecture, where nobody names one."""

from __future__ import annotations

from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.objectives.causal import CausalObjective
from anyformer.objectives.classification import ClassificationObjective
from anyformer.objectives.masked import MaskedObjective
from anyformer.objectives.multi_token import MultiTokenObjective
from anyformer.objectives.objective import Objective
from anyformer.objectives.prefix import PrefixObjective
from anyformer.objectives.seq2seq import Seq2SeqObjective

USUAL: tuple[Objective, ...] = (
    CausalObjective(),
    MultiTokenObjective(),
    PrefixObjective(),
    MaskedObjective(),
    Seq2SeqObjective(),
    ClassificationObjective(),
)
"""The usual objective of each shape of model: the first one whose requirements an architecture meets."""


def default_objective(architecture: Architecture) -> Objective:
    """The first usual objective that the architecture can be trained with; `UserError` with the reasons if there is none."""
    refusals = []
    for objective in USUAL:
        try:
            objective.check(architecture)
        except ValueError as error:
            refusals.append(f"  {objective.kind}: {error}")
            continue
        return objective
    raise UserError("no objective trains this architecture:\n" + "\n".join(refusals))
