"""Training objectives, one in each file; a class enters the registry of `Objective` by being defined."""

from anyformer.objectives.causal import CausalObjective
from anyformer.objectives.choice import default_objective
from anyformer.objectives.classification import ClassificationObjective
from anyformer.objectives.diffusion import DiffusionObjective
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.masked import MaskedObjective
from anyformer.objectives.multi_token import MultiTokenObjective
from anyformer.objectives.objective import Objective, Partner, Partners, Setting, added
from anyformer.objectives.prefix import PrefixObjective
from anyformer.objectives.seq2seq import Seq2SeqObjective

__all__ = [
    "CausalObjective",
    "ClassificationObjective",
    "DiffusionObjective",
    "Examples",
    "Feed",
    "MaskedObjective",
    "MultiTokenObjective",
    "Objective",
    "Partner",
    "Partners",
    "PrefixObjective",
    "Seq2SeqObjective",
    "Setting",
    "added",
    "default_objective",
]
