"""Composites whose projector reads squares of patches side by side (pixel shuffle): Idefics 3, Aya Vision and their like.

Sources: the configuration and modelling classes of transformers 5.23 (keys, defaults, names).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Rows, Table, To
from anyformer.huggingface.vision.encoders import PROJECTOR, TOWER, WITH_FINAL_NORM, encoder, skipped
from anyformer.parts import GatedProjector, ImageEncoder, ImageTower, LayerNorm, LinearProjector, SquaresProjector
from anyformer.parts.images.encoder_module import Images


def idefics3(config: Config) -> ImageEncoder:
    """Laurençon et al. 2024 (arXiv 2408.12637), section 3.1: one matrix behind squares; also of SmolVLM (arXiv 2504.05299)."""
    seen = encoder(config, WITH_FINAL_NORM, usual=f"{config.model_type}_vision")
    projector = SquaresProjector(side=config("scale_factor", 2), inner=LinearProjector(bias=False))
    tower = ImageTower(token=config("image_token_id", 128_257), **seen.fields, projector=projector)
    side = tower.per_side
    if _rounded(side) != list(range(side)):
        raise HuggingFaceError(
            f"{config.where}: vision_config: of {side} patches a side ({tower.image} pixels by {tower.patches.size}) rounding "
            f"makes transformers take some rows of its table twice: read the text model alone, without images"
        )
    return tower


def _rounded(side: int) -> list[int]:
    """The row of the table that transformers finds for every row of an image with as many, by fractions in fp32."""
    bounds, step = torch.arange(1 / side, 1.0, 1 / side), 1.0 / torch.tensor([side])
    found: list[int] = torch.bucketize((torch.arange(side) * step).clamp(max=1 - 1e-6), bounds, right=True).tolist()
    return found


def aya_vision(config: Config) -> ImageEncoder:
    """Dash et al. 2025 (arXiv 2505.08751), section 3: a norm and a gated network behind squares."""
    seen = encoder(config, config("vision_feature_layer", -1), usual="siglip_vision_model")
    wide = config("alignment_intermediate_size", _text_width(config))
    norm = LayerNorm(eps=config("adapter_layer_norm_eps", 1e-6))
    inner = GatedProjector(hidden=wide // 2, norm=norm)
    projector = SquaresProjector(side=config("downsample_factor", 2), inner=inner)
    token = config.either("image_token_index", "image_token_id", default=255_036)
    first = skipped(config, usual="full")
    return ImageTower(token=token, **seen.fields, skipped=first, projector=projector)


def cohere2_vision(config: Config) -> ImageEncoder:
    """Command A Vision (Cohere 2025): a gated network behind squares, of the last layer with the norm behind it."""
    seen = encoder(config, WITH_FINAL_NORM, usual="siglip_vision_model")
    inner = GatedProjector(hidden=config("alignment_intermediate_size", 36_864) // 2)
    projector = SquaresProjector(side=config("downsample_factor", 2), inner=inner)
    return ImageTower(token=config("image_token_id", 255_036), **seen.fields, projector=projector)


def _text_width(config: Config) -> int:
    """D of the text, which the class of Cohere 2 has as 8192 where no key says it."""
    text: Mapping[str, int] = config.written.get("text_config") or {}
    return text.get("hidden_size", 8192)


LINEAR: Table = {"images.projector.inner.projection": "modality_projection.proj"}
GATED: Table = {
    "images.projector.inner.norm": "layernorm",
    ("images.projector.inner.up", "images.projector.inner.gate"): To("linear_1", Rows()),
    "images.projector.inner.down": "linear_2",
}
IDEFICS_STORED: Mapping[str, str] = {
    r"(?:model\.)?vision_model\.(.*)": rf"{TOWER}\1",
    r"(?:model\.)?connector\.(.*)": rf"{PROJECTOR}\1",
}
"""Pattern of Idefics 3's names in files -> the name here."""


def of_one_row(tower: ImageEncoder, tokens_BT: Tensor, images: Images) -> dict[str, Tensor]:
    """Images as those of one row, (1, n, I, height, width)."""
    assert isinstance(images, Tensor), "they have one size"
    return {"pixel_values": images[None]}
