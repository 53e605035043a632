"""Training objectives, one in each file; a class enters the registry of `Objective` by being defined."""

from anyformer.objectives.causal import CausalObjective
from anyformer.objectives.choice import default_objective
from anyformer.objectives.classification import ClassificationObjective
from anyformer.objectives.contrastive import ContrastiveObjective
from anyformer.objectives.diffusion import DiffusionObjective
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.image_classification import ImageClassificationObjective
from anyformer.objectives.masked import MaskedObjective
from anyformer.objectives.multi_token import MultiTokenObjective
from anyformer.objectives.objective import Objective, Partner, Partners, Setting, added
from anyformer.objectives.prefix import PrefixObjective
from anyformer.objectives.regression import RegressionObjective
from anyformer.objectives.seq2seq import Seq2SeqObjective
from anyformer.objectives.spans import SpansObjective
from anyformer.objectives.token_labels import TokenLabelsObjective
from anyformer.objectives.vector_classification import VectorClassificationObjective

__all__ = [
    "CausalObjective",
    "ClassificationObjective",
    "ContrastiveObjective",
    "DiffusionObjective",
    "Examples",
    "Feed",
    "ImageClassificationObjective",
    "MaskedObjective",
    "MultiTokenObjective",
    "Objective",
    "Partner",
    "Partners",
    "PrefixObjective",
    "RegressionObjective",
    "Seq2SeqObjective",
    "Setting",
    "SpansObjective",
    "TokenLabelsObjective",
    "VectorClassificationObjective",
    "added",
    "default_objective",
]
