"""Surgery: the checkpoint of a changed architecture, from the weights that are there, and what became of each of them."""

from anyformer.surgery.choices import Choices, chosen, parse_layers
from anyformer.surgery.errors import SurgeryError
from anyformer.surgery.held_out import check as check_loss
from anyformer.surgery.held_out import loss_of, newest, read, text_of, tokenizer_beside
from anyformer.surgery.moments import check_moments, moments_of
from anyformer.surgery.planned import Surgery, planned
from anyformer.surgery.report import Line, Loss, Report
from anyformer.surgery.transform import performed, recovery, transform

__all__ = [
    "Choices",
    "Line",
    "Loss",
    "Report",
    "Surgery",
    "SurgeryError",
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
