"""Towers of SigLIP's layers for images of any size: LFM2-VL's, and PaddleOCR-VL's and VideoLLaMA 3's, whose patches turn.

Sources: the configuration and modelling classes of transformers 5.23 (keys, defaults, names).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import Names, Shaped, Table, To, under
from anyformer.huggingface.vision.encoders import LAYER, PROJECTOR, TOWER, layer_of
from anyformer.huggingface.vision.pixtral import FeatureMajor
from anyformer.huggingface.vision.qwen import arguments as by_squares
from anyformer.huggingface.vision.qwen import side_of, tower_table, turns
from anyformer.parts import (
    Block,
    GridTower,
    ImageEncoder,
    LayerNorm,
    MergedProjector,
    Patches,
    ResampledPosition,
    SquaresProjector,
    TwoLayerProjector,
    stack,
)
from anyformer.parts.embedding.patches_module import cut
from anyformer.parts.images.encoder_module import Images
from anyformer.parts.images.projector import Projector

_INERT = ("initializer_range", "num_image_tokens", "projection_dim", "vision_use_head")


def lfm2_vl(config: Config) -> ImageEncoder:
    """Liquid AI 2025 (arXiv 2511.23404), section 5: squares of patches side by side, a norm, two layers."""
    inner = tower_table(config, "siglip2_vision_model")
    inner.assume(hidden_size=768, num_hidden_layers=12)
    rows = inner("num_patches", 256)
    if math.isqrt(rows) ** 2 != rows:
        raise inner.refused("num_patches", rows, "a square, the rows and columns of a table")
    position = ResampledPosition(side=math.isqrt(rows), corners="edges", antialias=True)
    norm = words.layer_norm(inner, 1e-6)
    within = TwoLayerProjector(
        hidden=config("projector_hidden_size", 2560),
        activation=words.activation(config, "projector_hidden_act", "gelu"),
        norm=LayerNorm() if config("projector_use_layernorm", True) else None,
        bias=config("projector_bias", True),
    )
    side = config("downsample_factor", 2)
    projector: Projector = SquaresProjector(side=side, inner=within) if side > 1 else within
    block = layer_of(inner, norm, "gelu_pytorch_tanh")
    return _tower(inner, block, norm, projector, position, token=config("image_token_id", 396), counted="line")


def paddleocr_vl(config: Config) -> ImageEncoder:
    """Cui et al. 2025 (arXiv 2510.14528), section 2.1: positions are resampled, and turn too."""
    inner = tower_table(config, "paddleocr_vl_vision")
    inner.assume(
        hidden_size=1152, num_hidden_layers=27, num_attention_heads=16, intermediate_size=4304, patch_size=14, image_size=384
    )
    norm, projector = words.layer_norm(inner, 1e-6), MergedProjector(side=side_of(inner), norm=LayerNorm(eps=1e-5))
    position = ResampledPosition(side=inner("image_size") // inner("patch_size"), corners="edges")
    block = layer_of(inner, norm, "gelu_pytorch_tanh", turns(inner))
    return _tower(inner, block, norm, projector, position, token=config("image_token_id", 100_295))


def video_llama_3(config: Config) -> ImageEncoder:
    """Zhang et al. 2025 (arXiv 2501.13106), section 2.1: patches turn, and those of an image are not merged."""
    inner = tower_table(config)
    inner.assume(hidden_size=768, num_hidden_layers=12)
    norm = words.layer_norm(inner, 1e-6)
    block = layer_of(inner, norm, "gelu_pytorch_tanh", turns(inner))
    token = config("image_token_id", 151_655)
    return _tower(inner, block, norm, TwoLayerProjector(), None, token=token, counted="line")


def _tower(
    inner: Config, block: Block, norm: LayerNorm, projector: Projector, position: ResampledPosition | None, **more: Any
) -> ImageEncoder:
    patches = Patches(size=inner("patch_size", 16), channels=inner("num_channels", 3))
    width, depth, unit = inner("hidden_size"), inner("num_hidden_layers"), patches.size * projector.square
    inner.finish(_INERT)
    return GridTower(
        image=-(-448 // unit) * unit, width=width, patches=patches, stack=stack([block] * depth, final_norm=norm),
        projector=projector, position=position, sequence="rows", **more,
    )  # fmt: skip


def lfm2_names(tower: ImageEncoder) -> Names:
    """Names of the weights, ours to those here; a patch's pixels stand there channel by channel within every pixel."""
    within = "images.projector.inner" if tower.projector.square > 1 else "images.projector"
    projector: Table = {f"{within}.norm": "layer_norm", f"{within}.first": "linear_1", f"{within}.second": "linear_2"}
    outside = _names("embeddings.patch_embedding.weight", FeatureMajor(tower.patches.channels))
    return _in_layers({**under(TOWER, outside), **under(PROJECTOR, projector)})


def paddle_names(tower: ImageEncoder) -> Names:
    """Names of the weights of PaddleOCR-VL's, ours to those here."""
    return _convolved(tower, {"norm": "pre_norm", "first": "linear_1", "second": "linear_2"})


def video_names(tower: ImageEncoder) -> Names:
    """Names of the weights of VideoLLaMA 3's, ours to those here."""
    return _convolved(tower, {"first": "readout.0", "second": "readout.2"})


def _convolved(tower: ImageEncoder, projector: Mapping[str, str]) -> Names:
    """The names where patches are a convolution, and of the `projector`."""
    patches = tower.patches
    outside = _names("embeddings.patch_embedding.weight", Shaped((tower.width, patches.channels, patches.size, patches.size)))
    within: Table = {f"images.projector.{ours}": theirs for ours, theirs in projector.items()}
    return _in_layers({**under(TOWER, outside), **under(PROJECTOR, within)})


VIDEO_STORED: Mapping[str, str] = {
    r"(?:model\.)?vision_model\.(.*)": rf"{TOWER}\1",
    r"(?:model\.)?projector\.(.*)": rf"{PROJECTOR}\1",
}
"""Pattern of VideoLLaMA 3's names in files -> the name here."""


def _names(patches: str, cut_as: FeatureMajor | Shaped) -> Table:
    return {
        "images.patches.projection.weight": To(patches, cut_as),
        "images.patches.projection.bias": patches.replace("weight", "bias"),
        "images.position.weight": "embeddings.position_embedding.weight",
        "images.stack.final_norm": "post_layernorm",
    }


def _in_layers(outside: Table) -> Names:
    return Names(outside, {"images.stack": (f"{TOWER}encoder.layers.{{i}}.", LAYER)})


PADDLE_STORED: Mapping[str, str] = {
    r"(?:model\.)?visual\.(?:vision_model\.)?(.*)": rf"{TOWER}\1",
    r"(?:(?:model\.)?projector|mlp_AR)\.(.*)": rf"{PROJECTOR}\1",
}
"""Pattern of PaddleOCR's names in files, published or saved by transformers 5 -> the name here."""


def padded(tower: ImageEncoder, tokens_BT: Tensor, images: Images) -> dict[str, Tensor]:
    """Patches of every image row by row, with channels innermost, padded to as many; their rows and columns, and a mask."""
    size, flat, shapes = tower.patches.size, [], []
    for image in images:
        n = cut(image[None], size, 1)[0]
        flat.append(n.unflatten(1, (image.shape[0], -1)).mT.flatten(1))  # type: ignore[no-untyped-call]
        shapes.append([image.shape[1] // size, image.shape[2] // size])
    most = max(map(len, flat))
    mask = torch.stack([torch.arange(most) < len(own) for own in flat]).int()
    rows = [torch.nn.functional.pad(own, (0, 0, 0, most - len(own))) for own in flat]
    return {"pixel_values": torch.stack(rows), "spatial_shapes": torch.tensor(shapes), "pixel_attention_mask": mask}


def by_rows(tower: ImageEncoder, tokens_BT: Tensor, images: Images) -> dict[str, Tensor]:
    """Patches (channels, p, p) of all images row by row, the grid of each, and the tokens of images marked."""
    given, size = by_squares(tower, tokens_BT, images), tower.patches.size
    plain = [cut(image[None], size, 1)[0].unflatten(1, (image.shape[0], size, size)) for image in images]  # type: ignore[no-untyped-call]
    return {**given, "pixel_values": torch.cat(plain)}


def unmerged(tower: ImageEncoder, tokens_BT: Tensor, images: Images) -> dict[str, Tensor]:
    """Patches of all images row by row, the grid of each, and that none is merged."""
    size = tower.patches.size
    grids = torch.tensor([(1, image.shape[1] // size, image.shape[2] // size) for image in images])
    patches = torch.cat([cut(image[None], size, 1)[0] for image in images])
    return {"pixel_values": patches, "image_grid_thw": grids, "image_merge_sizes": torch.ones(len(grids), dtype=torch.int64)}
