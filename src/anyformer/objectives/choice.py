"""The objective that suits an architecture, where nobody names one."""

from __future__ import annotations

from anyformer.data.recognising import SPOKEN, recognised
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.objectives.causal import CausalObjective
from anyformer.objectives.classification import ClassificationObjective
from anyformer.objectives.contrastive import ContrastiveObjective
from anyformer.objectives.image_classification import ImageClassificationObjective
from anyformer.objectives.masked import MaskedObjective
from anyformer.objectives.multi_token import MultiTokenObjective
from anyformer.objectives.objective import Objective
from anyformer.objectives.prefix import PrefixObjective
from anyformer.objectives.regression import RegressionObjective
from anyformer.objectives.replaced_tokens import ReplacedTokensObjective
from anyformer.objectives.seq2seq import Seq2SeqObjective
from anyformer.objectives.span_corruption import SpanCorruptionObjective
from anyformer.objectives.vector_classification import VectorClassificationObjective

USUAL: tuple[Objective, ...] = (
    CausalObjective(),
    MultiTokenObjective(),
    PrefixObjective(),
    MaskedObjective(),
    SpanCorruptionObjective(),
    Seq2SeqObjective(),
    ReplacedTokensObjective(),
    ClassificationObjective(),
    ContrastiveObjective(),
    ImageClassificationObjective(),
    VectorClassificationObjective(),
    RegressionObjective(),
)
"""The usual objective of each shape of model: the first one whose requirements an architecture meets."""


def default_objective(architecture: Architecture) -> Objective:
    """The first usual objective that the architecture can be trained with; `UserError` with the reasons if there is none."""
    refusals: dict[Objective, str] = {}
    for objective in USUAL:
        try:
            objective.check(architecture)
        except ValueError as error:
            refusals[objective] = f"  {objective.kind}: {error}"
            continue
        return objective
    # The reasons that tell most come first: of objectives that give a model as many inputs as this one reads.
    nearest = sorted(refusals, key=lambda objective: objective.traits.two_inputs != architecture.two_inputs)
    raise UserError("no objective trains this architecture:\n" + "\n".join(refusals[objective] for objective in nearest))


def usual_objective(architecture: Architecture, paths: tuple[str, ...]) -> str | None:
    """The objective that records are usually read for, where they are chats and the model goes on with text; else None."""
    found = recognised(paths)
    asked = None if found is None else SPOKEN.get(found.form.kind)
    return asked if asked is not None and isinstance(default_objective(architecture), CausalObjective) else None
