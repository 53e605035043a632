"""Files of images as the pixels that a checkpoint's tower reads, by its own preprocessor_config.json (Pillow)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import isfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from anyformer.huggingface.config import Config, read_table
from anyformer.huggingface.errors import HuggingFaceError

_FILE, _AROUND, _INSIDE = "preprocessor_config.json", "processor_config.json", "image_processor"
_CLIP: Mapping[str, Any] = {
    "size": {"shortest_edge": 224}, "crop_size": {"height": 224, "width": 224}, "resample": 3, "do_center_crop": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
}  # fmt: skip
_HALF: Mapping[str, Any] = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "do_center_crop": False}
_USUAL: Mapping[str, Mapping[str, Any]] = {
    "CLIPImageProcessor": _CLIP,
    "SiglipImageProcessor": {**_HALF, "size": {"height": 224, "width": 224}, "resample": 3},
    "Gemma3ImageProcessor": {**_HALF, "size": {"height": 224, "width": 224}, "resample": 2},
}
"""Class of transformers -> the values of keys that a file leaves out."""
_INERT = (
    "crop_size", "data_format", "default_to_square", "device", "disable_grouping", "feature_extractor_type",
    "image_processor_type", "image_seq_length", "input_data_format", "num_channels", "pan_and_scan_max_num_crops",
    "pan_and_scan_min_crop_size", "pan_and_scan_min_ratio_to_activate", "processor_class", "return_tensors", "size",
    "_valid_processor_keys",
)  # fmt: skip
_SIDES = ("height", "width")
_MOST = 16384
"""The longest side in pixels to which an image is enlarged."""


@dataclass(frozen=True)
class Preparation:
    """An image is resized (the shorter side to `shortest`, or both to `size`), cropped from its middle, and centred:

    x = (pixel * factor - mean) / deviation, for each channel.
    """

    size: tuple[int, int] | None
    shortest: int | None
    crop: tuple[int, int] | None
    resample: int
    factor: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def pixels(self, image: Image.Image) -> Tensor:
        """(3, height, width) of an image of any size."""
        image = ImageOps.exif_transpose(image).convert("RGB")
        height, width = self._resized(image.height, image.width)
        image = image.resize((width, height), self.resample)
        if self.crop is not None:
            if self.crop[0] > height or self.crop[1] > width:
                raise HuggingFaceError(
                    f"an image of {height} x {width} pixels cannot be cropped to {self.crop[0]} x {self.crop[1]}: crop_size is "
                    f"larger than size makes images; correct the {_FILE}"
                )
            top, left = (height - self.crop[0]) // 2, (width - self.crop[1]) // 2
            image = image.crop((left, top, left + self.crop[1], top + self.crop[0]))
        grid = np.asarray(image, dtype=np.float32) * np.float32(self.factor)
        mean, deviation = (np.asarray(each, dtype=np.float32) for each in (self.mean, self.deviation))
        centred = (grid - mean) / deviation
        return torch.from_numpy(np.ascontiguousarray(centred.transpose(2, 0, 1)))

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        if self.size is not None:
            return self.size
        if self.shortest is None:
            return height, width
        short, long = sorted((height, width))
        long = min(_MOST, int(self.shortest * long / short))
        return (self.shortest, long) if height < width else (long, self.shortest)


def preparation(directory: Path) -> Preparation:
    """What a directory says of its images; `HuggingFaceError` where it says nothing, or what is not known here."""
    config = _config(directory)
    named = str(config("image_processor_type", None) or config("feature_extractor_type", None) or "")
    usual = _USUAL.get(named.removesuffix("Fast").removesuffix("Pil").replace("FeatureExtractor", "ImageProcessor"))
    if usual is None:
        raise HuggingFaceError(f"{config.where}: image_processor_type = {named!r} is not known here, only {', '.join(_USUAL)}")
    config.assume(**usual)
    config.expect_all(do_convert_rgb=True, do_rescale=True, do_normalize=True)
    config.expect("do_pan_and_scan", None, False)
    config.expect("do_pad", None, False)
    size, shortest = _size(config, "size") if config("do_resize", True) else (None, None)
    crop = _size(config, "crop_size")[0] if config("do_center_crop") else None
    made = Preparation(
        size,
        shortest,
        crop,
        config("resample"),
        config("rescale_factor", 1 / 255),
        *_channels(config, "image_mean", "image_std"),
    )
    config.finish(_INERT)
    return made


def pixels(files: Sequence[str | Path], directory: str | Path) -> Tensor:
    """Files of images as (n, 3, height, width), prepared as the directory of their checkpoint says."""
    prepared = preparation(Path(directory))
    return torch.stack([prepared.pixels(_opened(Path(file))) for file in files])


def _config(directory: Path) -> Config:
    """The keys about images, from either of the two files that may have them."""
    for name in (_FILE, _AROUND):
        path = directory / name
        if isfile(path):
            table = read_table(path)
            inside = table.get(_INSIDE) if name == _AROUND else table
            if isinstance(inside, dict):
                return Config({"model_type": "the image processor", **inside}, str(path))
    raise HuggingFaceError(
        f"{directory}: has no {_FILE}, which says how images become pixels: copy it there from where the model was published, "
        f"or give the model pixels"
    )


def _size(config: Config, key: str) -> tuple[tuple[int, int] | None, int | None]:
    """(height, width), or the shorter side; a number is the shorter side of a size, and both of a crop."""
    value = config(key)
    if isinstance(value, int):
        return ((value, value), None) if key == "crop_size" else (None, value)
    sides = [value.get(side) for side in (*_SIDES, "shortest_edge")]
    if any(side is not None and (type(side) is not int or not 1 <= side <= _MOST) for side in sides):
        raise config.refused(key, value, f"sides in pixels, from 1 to {_MOST}")
    if None not in sides[:2]:
        return (sides[0], sides[1]), None
    if sides[2] is None or key == "crop_size":
        raise config.refused(key, value, "a table with height and width" + ("" if key == "crop_size" else ", or shortest_edge"))
    return None, sides[2]


def _channels(config: Config, *keys: str) -> list[tuple[float, ...]]:
    values = [tuple(config(key)) for key in keys]
    for key, value in zip(keys, values, strict=True):
        if len(value) != 3:
            raise config.refused(key, list(value), "three numbers, for red, green and blue")
    return values


def _opened(path: Path) -> Image.Image:
    try:
        with Image.open(path) as image:
            image.load()
            return image
    except FileNotFoundError:
        raise HuggingFaceError(f"{path}: no such image") from None
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise HuggingFaceError(f"{path}: not an image that Pillow reads ({error}); save it again as PNG") from None
