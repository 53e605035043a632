"""The checkpoint of a changed architecture, from the weights that are there, and what became of each of them."""

from anyformer.transforming.choices import TransformChoices, chosen, parse_layers
from anyformer.transforming.errors import TransformError
from anyformer.transforming.held_out import check as check_loss
from anyformer.transforming.held_out import loss_of, newest, read, text_of, tokenizer_beside
from anyformer.transforming.moments import check_moments, moments_of
from anyformer.transforming.planned import Transformation, planned
from anyformer.transforming.report import Loss, TransformReport, WeightFates
from anyformer.transforming.transform import performed, recovery, transform

__all__ = [
    "Loss",
    "TransformChoices",
    "TransformError",
    "TransformReport",
    "Transformation",
    "WeightFates",
    "check_loss",
    "check_moments",
    "chosen",
    "loss_of",
    "moments_of",
    "newest",
    "parse_layers",
    "performed",
    "planned",
    "read",
    "recovery",
    "text_of",
    "tokenizer_beside",
    "transform",
]
