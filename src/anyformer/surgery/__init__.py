"""Surgery: the checkpoint of a changed architecture, from the weights that are there, and what became of each of them."""

from anyformer.surgery.choices import TransformChoices, chosen, parse_layers
from anyformer.surgery.errors import SurgeryError
from anyformer.surgery.held_out import check as check_loss
from anyformer.surgery.held_out import loss_of, newest, read, text_of, tokenizer_beside
from anyformer.surgery.moments import check_moments, moments_of
from anyformer.surgery.planned import Surgery, planned
from anyformer.surgery.recovery import recovery
from anyformer.surgery.report import Loss, TransformReport, WeightFates
from anyformer.surgery.transform import performed, transform

__all__ = [
    "Loss",
    "Surgery",
    "SurgeryError",
    "TransformChoices",
    "TransformReport",
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
