"""How images become pixels, written beside the weights of a model that was trained on images here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.huggingface.pixel_values import AROUND, FILE, INSIDE, OF_ANY_SIZE, WITHIN, kind_of
from anyformer.text.beside import Beside

_BICUBIC = 3
"""Pillow's number of the filter that training scales by."""
_NEW = {"image_processor_type": "CLIPImageProcessor", "do_center_crop": True}


@dataclass(frozen=True)
class TrainedPixels:
    """Images cut from their middle and scaled to `height` x `width`; a pixel p enters as (p / 255 - mean) / deviation."""

    height: int
    width: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def files(self, beside: Beside) -> dict[str, bytes]:
        """The file that says so: what stands beside the weights already, with what training has made of it, or a new one.

        An image processor that cuts only to squares, or not at all, squeezes an image of another shape; one for images of any
        size leaves a shape and gives images as many pixels.
        """
        name = next((each for each in (FILE, AROUND) if each in beside), FILE)
        table = beside.table(name)
        if name == AROUND and not isinstance(table.get(INSIDE), dict):
            name, table = FILE, {}
        inner = table[INSIDE] if name == AROUND else table or _NEW
        inner = {**inner, **self._numbers(), **self._size(inner)}
        written = {**table, INSIDE: inner} if name == AROUND else inner
        return {name: (json.dumps(written, indent=2, ensure_ascii=False) + "\n").encode()}

    def _numbers(self) -> dict[str, Any]:
        return {
            "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": list(self.mean),
            "image_std": list(self.deviation), "resample": _BICUBIC, "rescale_factor": 1 / 255,
        }  # fmt: skip

    def _size(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """The keys about sizes, as the class of the image processor reads them."""
        kind, sides = kind_of(table), {"height": self.height, "width": self.width}
        if kind in OF_ANY_SIZE:
            pixels = self.height * self.width
            bounds = {key: pixels for key in ("min_pixels", "max_pixels") if key in table}
            return {"size": {"shortest_edge": pixels, "longest_edge": pixels}, **bounds}
        if kind == WITHIN:
            return {"size": {"longest_edge": max(sides.values())}}
        if table.get("do_center_crop") and self.height == self.width:
            return {"size": {"shortest_edge": self.height}, "crop_size": sides}
        return {"size": sides, "do_center_crop": False}
