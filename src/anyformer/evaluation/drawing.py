"""Pictures by a trained model of flow, from noise: of a class, or of any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anyformer.data import Data, Images
from anyformer.data.labels import place_of
from anyformer.describe import UserError
from anyformer.files import writing
from anyformer.generation.flow import flowed, number_of_classes
from anyformer.images import ImageError
from anyformer.loading import labels_of
from anyformer.model.transformer import Transformer
from anyformer.objectives import FlowMatchingObjective, Objective
from anyformer.training.run import load_run

Picture = NDArray[np.uint8]


class FlowOptions(TypedDict, total=False):
    """How noise becomes pictures: the settings of `flowed`."""

    steps: int
    guidance: float
    solver: str
    seed: int


@dataclass(frozen=True)
class Painter:
    """A model that makes pictures, with what it was trained on: how pixels enter (`objective`), the size of images (`data`),
    and the `names` of its classes."""

    model: Transformer
    objective: FlowMatchingObjective
    data: Images
    names: tuple[str, ...]

    @property
    def classes(self) -> int:
        """The number of classes that it tells apart; 0 without any."""
        return number_of_classes(self.model)

    def pictures(self, classes: Sequence[str], each: int = 1, **options: Unpack[FlowOptions]) -> Picture:
        """(classes, each, height, width, channels): `each` pictures of every class, by its name; without classes one
        row of pictures of any. Raises `UserError` for a class that is none."""
        numbers = [self._number(name) for name in classes] or [self.classes]
        drawn = torch.tensor(numbers).repeat_interleave(each).to(self.model.device) if self.classes else None
        shape = torch.Size((len(numbers) * each, self.data.channels, self.data.height, self.data.width))
        return self.pixels(flowed(self.model, shape, drawn, **options)).reshape(len(numbers), each, *shape[2:], shape[1])

    def pixels(self, images: Tensor) -> Picture:
        """(B, I, height, width) as they enter -> (B, height, width, I) from 0 to 255."""
        mean, deviation = (torch.tensor(numbers).view(-1, 1, 1) for numbers in (self.objective.mean, self.objective.deviation))
        found = ((images.cpu() * deviation + mean) * 255).round().clamp(0, 255)
        return found.byte().permute(0, 2, 3, 1).contiguous().numpy()

    def _number(self, name: str) -> int:
        if not self.classes:
            raise UserError(f"--class {name}: this model was trained without classes: leave it out")
        found = place_of(name, self.names)
        if found is None:
            known = ", ".join(self.names[:12]) + ", ..." * (len(self.names) > 12)
            raise UserError(f"--class {name}: the model knows no such class (it knows {known})")
        return found


def painter(model: Transformer, run: Path) -> Painter:
    """A model of the run in a directory, which says what its pictures are; `UserError` for one that makes none."""
    described = load_run(run / "run.toml")
    return painter_of(model, described.objective, described.data, labels_of(run), str(run))


def painter_of(model: Transformer, objective: Objective, data: Data, names: tuple[str, ...], where: str) -> Painter:
    """The same, of what a run says."""
    if not isinstance(objective, FlowMatchingObjective):
        raise UserError(
            f"{where}: is a model for {objective.kind}, and one for flow_matching makes pictures: leave --class and --output "
            "out"
        )
    own = next(iter(data.components.values()))
    assert isinstance(own, Images), "the objective reads such data alone"
    return Painter(model, objective, own, names)


def sheet_of(pictures: Picture, gap: int = 1) -> Picture:
    """One picture of a grid of them, (rows, columns, height, width, channels), with white lines between."""
    rows, columns, height, width, channels = pictures.shape
    size = (rows * (height + gap) - gap, columns * (width + gap) - gap, channels)
    sheet = np.full(size, 255, dtype=np.uint8)
    for row in range(rows):
        for column in range(columns):
            top, left = row * (height + gap), column * (width + gap)
            sheet[top : top + height, left : left + width] = pictures[row, column]
    return sheet


def enlarged(sheet: Picture, least: int = 256) -> Picture:
    """The sheet with every pixel as a square, so that its longer side has `least` pixels at least."""
    times = max(1, -(-least // max(sheet.shape[:2])))
    return sheet.repeat(times, 0).repeat(times, 1)


def write_png(path: Path, sheet: Picture) -> None:
    """Write a picture (height, width, channels), grey, in colours or with alpha, as a PNG file, whole or not at all."""
    if find_spec("PIL") is None:
        raise ImageError(path, "images are written by Pillow, which is not installed", "pip install 'anyformer[images]'")
    from PIL import Image

    with writing(path) as partial:
        Image.fromarray(sheet[:, :, 0] if sheet.shape[2] == 1 else sheet).save(partial, "PNG")
