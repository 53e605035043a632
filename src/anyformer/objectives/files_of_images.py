"""Files of images as a model that was trained on images here reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyformer.data import Data, ImageTexts
from anyformer.data.images import image_field
from anyformer.data.row import RecordRow
from anyformer.model import Architecture
from anyformer.objectives.captions import CaptionsObjective
from anyformer.objectives.objective import Objective
from anyformer.text import Tokenizer


def trained_on(run: Mapping[str, Any]) -> tuple[CaptionsObjective, ImageTexts] | None:
    """The objective and the data of a run as plain data, if it was trained on texts beside images; of a mixture the first."""
    plain, data = dict(run["objective"]), dict(run["data"])
    if data["kind"] == "mixture":
        data = dict(data["parts"][0]["data"])
    kind, objective = Data.kinds.get(data.pop("kind")), Objective.kinds.get(plain.pop("kind"))
    if kind is None or objective is None or not issubclass(kind, ImageTexts) or not issubclass(objective, CaptionsObjective):
        return None
    data.setdefault("tokenizer", {"kind": "bytes"})  # of a mixture's part, which has none
    return objective.parse(plain), kind.parse(data)


def images_in(
    files: Sequence[str | Path], objective: CaptionsObjective, data: ImageTexts, architecture: Architecture
) -> Tensor:
    """The images of some files as the model reads them: cut and scaled to the size of its training."""
    rows = [RecordRow(str(file), {"image": Path(file).name}, Path(file).absolute().parent) for file in files]
    arrays = [image_field(row, "image", data.channels, data.height, data.width) for row in rows]
    return objective.entered(torch.from_numpy(np.stack(arrays)), architecture)


def image_prompt(objective: CaptionsObjective, architecture: Architecture, tokenizer: Tokenizer) -> str:
    """The beginning of a text that shows an image: nothing, or where text stands around the image's tokens, that."""
    if architecture.images is None or not (objective.before_image or objective.behind_image):
        return ""
    return f"{objective.before_image}{tokenizer.token(architecture.images.token)}{objective.behind_image}"
