"""LLaVA-NeXT and LLaVA-OneVision: an image and its tiles, whose features stand in rows of the whole image.

Into which tiles an image is cut follows from its size and `image_grid_pinpoints`, and is told with the image (`Tiles`).
Sources: the configuration and modelling classes of transformers 5.23 (keys, defaults, names).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.vision.encoders import STORED, encoder, names, skipped
from anyformer.huggingface.words.activations import activation
from anyformer.parts import ImageEncoder, TiledTower, TwoLayerProjector
from anyformer.parts.images.encoder_module import Images

Grids = Sequence[Sequence[int]]
_NEXT: Grids = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))
_ONEVISION: Grids = tuple((384 * rows, 384 * columns) for rows in range(1, 7) for columns in range(1, 7))


def llava_next(config: Config) -> ImageEncoder:
    """Liu et al. 2024 (llava-vl.github.io/blog/2024-01-30-llava-next), and the images of LLaVA-NeXT-Video."""
    token = 32_001 if config.model_type == "llava_next_video" else 32_000
    return _tiled(config, -2, "clip_vision_model", "default", token, _NEXT)


def llava_onevision(config: Config) -> ImageEncoder:
    """Li et al. 2024 (arXiv 2408.03326), section 3.2: as many features as some tiles have, interpolated beyond."""
    named = config("vision_aspect_ratio", "anyres_max_9")
    found = re.fullmatch(r"anyres_max_([1-9]\d{0,3})", named)
    if found is None:
        raise config.refused("vision_aspect_ratio", named, "anyres_max_N, N tiles of features at most")
    return _tiled(config, -1, "siglip_vision_model", "full", 151_646, _ONEVISION, most=int(found[1]))


def _tiled(
    config: Config, layer: int, tower: str, strategy: str, token: int, grids: Grids, *, most: int | None = None
) -> ImageEncoder:
    """A tower of tiles with these values where keys are absent."""
    seen = encoder(config, config("vision_feature_layer", layer), usual=tower)
    first = skipped(config, usual=strategy)
    if first != seen.patches.class_tokens:
        only = "default" if seen.patches.class_tokens else "full"
        given = config("vision_feature_select_strategy", strategy)
        raise config.refused("vision_feature_select_strategy", given, f"{only!r}: rows of tiles are rows of patches alone")
    projector = TwoLayerProjector(
        activation=activation(config, "projector_hidden_act", "gelu"), bias=config("multimodal_projector_bias", True)
    )
    return TiledTower(
        token=config.either("image_token_index", "image_token_id", default=token), **seen.fields, skipped=first,
        projector=projector, most=most, grid=_example(config, seen.image, grids),
    )  # fmt: skip


def _example(config: Config, side: int, usual: Grids) -> tuple[int, int]:
    """Rows and columns of tiles that an image may have: two of each, or else those of the largest grid."""
    given = config("image_grid_pinpoints", None)
    grids = [tuple(grid) for grid in (usual if given is None else given)]
    if not grids or any(edge % side for grid in grids for edge in grid):
        raise config.refused("image_grid_pinpoints", given, f"pairs of multiples of the tower's {side} pixels, high and wide")
    high, wide = (2 * side, 2 * side) if (2 * side, 2 * side) in grids else max(grids, key=lambda grid: grid[0] * grid[1])
    return high // side, wide // side


_PROJECTOR: Table = {"images.projector.first": "linear_1", "images.projector.second": "linear_2"}
TILED_STORED: Mapping[str, str] = {**STORED, r"(?:model\.)?(image_newline)": r"\1"}
"""Pattern of names in files, published or saved by transformers 5 -> the name here."""


def tiled_names(tower: ImageEncoder) -> Names:
    """Names of the weights, ours to those here."""
    square = names(_PROJECTOR, tower)
    return Names({**square.outside, "images.newline": "image_newline"}, square.layers)


def arguments(tower: ImageEncoder, tokens_BT: Tensor, images: Images) -> dict[str, Tensor]:
    """All images with as many tiles, of which the last may be nothing, and the size of each."""
    most = max(len(image.pixels) for image in images)
    padded = [pad(image.pixels, (0, 0) * 3 + (0, most - len(image.pixels))) for image in images]
    sizes = torch.tensor([(image.height, image.width) for image in images])
    return {"pixel_values": torch.stack(padded), "image_sizes": sizes}
