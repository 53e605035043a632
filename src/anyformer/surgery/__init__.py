"""Surgery: the checkpoint of a changed architecture, from the weights that are there, and what became of each of them."""

from anyformer.surgery.choices import Choices, parse_layers
from anyformer.surgery.errors import SurgeryError
from anyformer.surgery.planned import Surgery, planned
from anyformer.surgery.report import Line, Loss, Report
from anyformer.surgery.transform import performed, transform

__all__ = [
    "Choices",
    "Line",
    "Loss",
    "Report",
    "Surgery",
    "SurgeryError",
    "parse_layers",
    "performed",
    "planned",
    "transform",
]
