"""Files of images as the pixels that a checkpoint's tower reads, by its own preprocessor_config.json (Pillow)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from anyformer.huggingface.config import Config, read_table
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.resized import MOST, AsItIs, EnlargedMultiples, Exactly, Multiples, NoLonger, Resize, Shorter
from anyformer.huggingface.tiling import Tiling
from anyformer.huggingface.vocabulary import MAPPING, SIZE
from anyformer.images import read_image
from anyformer.parts import Tiles
from anyformer.parts.images.encoder_module import Images

if TYPE_CHECKING:
    from PIL.Image import Image

FILE, AROUND, INSIDE = "preprocessor_config.json", "processor_config.json", "image_processor"
_NAMED = ("image_processor_type", "feature_extractor_type")
_CLIP: Mapping[str, Any] = {
    "size": {"shortest_edge": 224}, "crop_size": {"height": 224, "width": 224}, "resample": 3, "do_center_crop": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
}  # fmt: skip
_HALF: Mapping[str, Any] = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "do_center_crop": False}
_GLM: Mapping[str, Any] = {**_CLIP, "size": {"shortest_edge": 12_544, "longest_edge": 11_760_000}, "do_center_crop": False}
_USUAL: Mapping[str, Mapping[str, Any]] = {
    "BitImageProcessor": _CLIP,
    "BlipImageProcessor": {**_CLIP, "size": {"height": 384, "width": 384}, "do_center_crop": False},
    "CLIPImageProcessor": _CLIP,
    "SiglipImageProcessor": {**_HALF, "size": {"height": 224, "width": 224}, "resample": 3},
    "DeiTImageProcessor": {**_HALF, "size": {"height": 256, "width": 256}, "crop_size": {"height": 224, "width": 224},
                           "resample": 3, "do_center_crop": True},
    "ViTImageProcessor": {**_HALF, "size": {"height": 224, "width": 224}, "resample": 2},
    "Gemma3ImageProcessor": {**_HALF, "size": {"height": 224, "width": 224}, "resample": 2},
    "Qwen2VLImageProcessor": {**_CLIP, "size": {"shortest_edge": 3136, "longest_edge": 1_003_520}, "do_center_crop": False},
    "PaddleOCRVLImageProcessor": {
        **_CLIP, "size": {"shortest_edge": 147_456, "longest_edge": 2_359_296}, "do_center_crop": False,
    },
    "PixtralImageProcessor": {**_CLIP, "size": {"longest_edge": 1024}, "do_center_crop": False},
    "GotOcr2ImageProcessor": {**_CLIP, "size": {"height": 384, "width": 384}, "do_center_crop": False},
    "LlavaNextImageProcessor": _CLIP,
    "LlavaOnevisionImageProcessor": {**_CLIP, "size": {"height": 384, "width": 384}, "do_center_crop": False},
    **dict.fromkeys(("Glm4vImageProcessor", "Glm46VImageProcessor"), _GLM),
}  # fmt: skip
"""Class of transformers -> the values of keys that a file leaves out."""
_INERT = (
    "crop_size", "data_format", "default_to_square", "device", "disable_grouping", "feature_extractor_type",
    "image_processor_type", "image_seq_length", "input_data_format", "max_patches", "min_patches",
    "num_channels", "pan_and_scan_max_num_crops",
    "pan_and_scan_min_crop_size", "pan_and_scan_min_ratio_to_activate", "processor_class", "return_tensors", "size",
    "_valid_processor_keys",
)  # fmt: skip
PIXELS = 2**24
"""Pixels of an image at most, as the tower reads it: three numbers of four bytes each, twice."""
_SIDES = ("height", "width")
OF_ANY_SIZE: Mapping[str, bool] = {
    "Qwen2VLImageProcessor": False, "PaddleOCRVLImageProcessor": False, "Glm4vImageProcessor": True,
    "Glm46VImageProcessor": True,
}  # fmt: skip
"""The classes whose sizes are those of whole images in pixels, and whether these count every frame of a film."""
_TILED: Mapping[str, tuple[tuple[int, int], ...]] = {
    "LlavaNextImageProcessor": ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)),
    "LlavaOnevisionImageProcessor": tuple((384 * rows, 384 * columns) for rows in range(1, 7) for columns in range(1, 7)),
}
"""The classes that cut images into tiles -> the grids among which one is taken, where no key says it."""
WITHIN = "PixtralImageProcessor"
"""The class whose size is that of the longest side."""


@dataclass(frozen=True)
class Preparation:
    """An image is resized, cropped from its middle, and centred:

    x = (pixel * factor - mean) / deviation, per channel.
    """

    resize: Resize
    crop: tuple[int, int] | None
    resample: int
    factor: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    tiling: Tiling | None = None
    """How an image is cut into tiles before."""

    def shown(self, image: Image) -> Tensor | Tiles:
        """What a tower reads of an upright RGB image of any size."""
        return self.pixels(image) if self.tiling is None else self.tiling(image, self.pixels)

    def pixels(self, image: Image) -> Tensor:
        """(3, height, width) of an upright RGB image of any size."""
        height, width = self.resize(image.height, image.width)
        if height * width > PIXELS:
            raise HuggingFaceError(
                f"an image of {image.height} x {image.width} pixels would become {height} x {width}, and {PIXELS:,} pixels is "
                f"the most: scale it down, or correct the {FILE}"
            )
        image = image.resize((width, height), self.resample)
        if self.crop is not None:
            if self.crop[0] > height or self.crop[1] > width:
                raise HuggingFaceError(
                    f"an image of {height} x {width} pixels cannot be cropped to {self.crop[0]} x {self.crop[1]}: crop_size is "
                    f"larger than size makes images; correct the {FILE}"
                )
            top, left = (height - self.crop[0]) // 2, (width - self.crop[1]) // 2
            image = image.crop((left, top, left + self.crop[1], top + self.crop[0]))
        grid = np.array(image, dtype=np.float32)
        grid *= np.float32(self.factor)
        grid -= np.asarray(self.mean, dtype=np.float32)
        grid /= np.asarray(self.deviation, dtype=np.float32)
        return torch.from_numpy(np.ascontiguousarray(grid.transpose(2, 0, 1)))


def preparation(directory: Path) -> Preparation:
    """What a directory says of its images; `HuggingFaceError` where it says nothing, or what is not known here."""
    config = _config(directory)
    named = {key: config(key, None) for key in _NAMED}
    kind = kind_of(named)
    usual = _USUAL.get(kind)
    if usual is None:
        called = next(filter(None, named.values()), "")
        raise HuggingFaceError(f"{config.where}: image_processor_type = {called!r} is not known here, only {', '.join(_USUAL)}")
    config.assume(**usual)
    config.expect_all(do_convert_rgb=True, do_rescale=True, do_normalize=True)
    config.expect("do_pan_and_scan", None, False)
    config.expect("crop_to_patches", None, False, why="images are not cut into tiles")
    if kind in OF_ANY_SIZE:
        rule = EnlargedMultiples if kind == "PaddleOCRVLImageProcessor" else Multiples
        resize: Resize = _multiples(config, rule, counts_frames=OF_ANY_SIZE[kind])
    elif kind == WITHIN:
        resize = _within(config, directory)
    else:
        resize = _resize(config)
    config.expect("do_pad", None, False, *([True] if kind == WITHIN or kind in _TILED else []))
    crop = _size(config, "crop_size")[0] if config("do_center_crop") else None
    mean, deviation = _channels(config, "image_mean", "image_std")
    factor, tiling = config("rescale_factor", 1 / 255), _tiling(config, kind, crop)
    made = Preparation(resize, crop, config("resample"), factor, mean, deviation, tiling)
    config.finish(_INERT)
    return made


def pixels(files: Sequence[str | Path], directory: str | Path) -> Images:
    """Files of images as (n, 3, height, width), or each of its own size, prepared as the directory of their checkpoint says."""
    prepared = preparation(Path(directory))
    images = tuple(prepared.shown(read_image(Path(file), "RGB")) for file in files)
    alike = [image for image in images if isinstance(image, Tensor) and prepared.resize.alike]
    return torch.stack(alike) if alike else images


def kind_of(table: Mapping[str, Any]) -> str:
    """The class of transformers that a table of an image processor names, as all of its spellings."""
    named = str(next(filter(None, (table.get(key) for key in _NAMED)), ""))
    return named.removesuffix("Fast").removesuffix("Pil").replace("FeatureExtractor", "ImageProcessor")


def _config(directory: Path) -> Config:
    """The keys about images, from either of the two files that may have them."""
    for name in (FILE, AROUND):
        path = directory / name
        if isfile(path):
            table = read_table(path)
            inside = table.get(INSIDE) if name == AROUND else table
            if isinstance(inside, dict):
                return Config({"model_type": "the image processor", **inside}, str(path))
    raise HuggingFaceError(
        f"{directory}: has no {FILE}, which says how images become pixels: copy it there from where the model was published, "
        f"or give the model pixels"
    )


def _resize(config: Config) -> Resize:
    """The rule for images that all get one size."""
    if not config("do_resize", True):
        return AsItIs()
    size, shortest = _size(config, "size")
    if size is not None:
        return Exactly(*size)
    assert shortest is not None, "one of both is given"
    return Shorter(shortest)


def _tiling(config: Config, kind: str, crop: tuple[int, int] | None) -> Tiling | None:
    """How the images of a class are cut into tiles; None where they are not."""
    if kind not in _TILED:
        return None
    config.expect("do_resize", True)
    size, shortest = _size(config, "size")
    sides = crop or size or (shortest, shortest)
    side = sides[0]
    assert side is not None, "one of them is given"
    given = config("image_grid_pinpoints", None)
    grids = tuple((high, wide) for high, wide in (_TILED[kind] if given is None else given))
    fits = all(high % side == 0 and wide % side == 0 and high * wide <= PIXELS for high, wide in grids)
    if sides != (side, side) or not grids or not fits:
        raise config.refused("image_grid_pinpoints", given, f"pairs of multiples of the {side} pixels of a square tile")
    return Tiling(grids, side, config("resample"))


def _within(config: Config, directory: Path) -> Resize:
    """The rule for images of any size up to a longest side, which squares of patches divide.

    How many patches a square has stands beside the image processor, in the file of the whole processor.
    """
    config.expect("do_resize", True)
    size = config("size", kind=MAPPING)
    longest = size.get("longest_edge") or size.get("height")
    if type(longest) is not int or not 1 <= longest <= MOST:
        raise config.refused("size", size, f"a table with longest_edge, in pixels from 1 to {MOST}")
    own = config("patch_size", 16, kind=SIZE | MAPPING)
    own = own if isinstance(own, int) else own.get("height")
    around = directory / AROUND
    table = read_table(around) if isfile(around) else {}
    unit = table.get("patch_size", own), table.get("spatial_merge_size", 1)
    if any(type(side) is not int or not 1 <= side <= MOST for side in unit):
        raise HuggingFaceError(
            f"{around}: patch_size and spatial_merge_size = {list(unit)} should be numbers of pixels and patches"
        )
    return NoLonger(unit[0] * unit[1], longest)


def _multiples(config: Config, rule: type[Multiples], *, counts_frames: bool) -> Resize:
    """The rule for images of any size, whose sides patches and their squares divide."""
    config.expect("do_resize", True)
    size = config("size")
    held = size if isinstance(size, Mapping) else {}
    least = config("min_pixels", None) or held.get("shortest_edge")
    most = config("max_pixels", None) or held.get("longest_edge")
    if type(least) is not int or type(most) is not int or not 1 <= least <= most:
        raise config.refused("size", size, "a table with shortest_edge and longest_edge, the pixels of an image")
    frames = config("temporal_patch_size", 2)
    return rule(config("patch_size", 14) * config("merge_size", 2), least, most, frames if counts_frames else 0)


def _size(config: Config, key: str) -> tuple[tuple[int, int] | None, int | None]:
    """(height, width), or the shorter side; a number is the shorter side of a size, and both of a crop."""
    value = config(key)
    if isinstance(value, int):
        return ((value, value), None) if key == "crop_size" else (None, value)
    sides = [value.get(side) for side in (*_SIDES, "shortest_edge")]
    if any(side is not None and (type(side) is not int or not 1 <= side <= MOST) for side in sides):
        raise config.refused(key, value, f"sides in pixels, from 1 to {MOST}")
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
