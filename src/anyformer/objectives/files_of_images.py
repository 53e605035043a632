"""Files of images as a model that was trained on images here reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyformer.data import ImageTexts
from anyformer.data.images import image_field
from anyformer.data.row import RecordRow
from anyformer.model import Architecture
from anyformer.objectives.captions import CaptionsObjective
from anyformer.objectives.recorded import recorded
from anyformer.text import Tokenizer


def trained_on(run: Mapping[str, Any] | None) -> tuple[CaptionsObjective, ImageTexts] | None:
    """The objective and the data of a run as plain data, if it was trained on texts beside images; of a mixture the first."""
    return recorded(run, CaptionsObjective, ImageTexts)


def images_in(
    files: Sequence[str | Path], objective: CaptionsObjective, data: ImageTexts, architecture: Architecture
) -> Tensor:
    """The images of some files as the model reads them: cut and scaled to the size of its training."""
    rows = [RecordRow(str(file), {"image": Path(file).name}, Path(file).absolute().parent) for file in files]
    arrays = [image_field(row, "image", data.channels, data.height, data.width) for row in rows]
    return objective.entered(torch.from_numpy(np.stack(arrays)), architecture)


def image_prompt(objective: CaptionsObjective, architecture: Architecture, tokenizer: Tokenizer | None) -> str:
    """The beginning of a text that shows an image: nothing, or where text stands around the image's tokens, that."""
    if tokenizer is None or architecture.images is None or not (objective.before_image or objective.behind_image):
        return ""
    return f"{objective.before_image}{tokenizer.token(architecture.images.token)}{objective.behind_image}"
