"""The composites that are read with their images: where an image stands, and how its features reach the text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import Table, To, Transposed
from anyformer.huggingface.vision.encoders import WITH_FINAL_NORM, encoder
from anyformer.huggingface.words.activations import activation
from anyformer.parts import ImageTower, PooledProjector, RMSNorm, TwoLayerProjector


@dataclass(frozen=True)
class Vision:
    """The images of a composite: its tower, and the names of the projector's weights, ours to those stored."""

    read: Callable[[Config], ImageTower]
    projector: Table
    marks: str = ""
    """The argument of transformers' class that is 1 at tokens of images; empty without one."""


def llava(config: Config) -> ImageTower:
    """Liu et al. 2023 (arXiv 2310.03744): the patches of the last layer but one, two layers to the text's width."""
    config.expect("vision_feature_select_strategy", "default", "full")
    layer = config("vision_feature_layer", -2)
    seen = encoder(config, layer, usual="clip_vision_model")
    # Transformers leaves the first position out whatever it is.
    skipped = 0 if config("vision_feature_select_strategy", "default") == "full" else 1
    projector = TwoLayerProjector(
        activation=activation(config, "projector_hidden_act", "gelu"), bias=config("multimodal_projector_bias", True)
    )
    token = config.either("image_token_index", "image_token_id", default=32_000)
    return ImageTower(token=token, **seen.fields, skipped=skipped, projector=projector)


def gemma3(config: Config) -> ImageTower:
    """Gemma Team 2025 (arXiv 2503.19786): SigLIP's patches averaged to a few tokens that see each other."""
    seen = encoder(config, WITH_FINAL_NORM, usual="siglip_vision_model")
    tokens = config("mm_tokens_per_image", 256)
    norm = RMSNorm(eps=seen.norm.eps, gain="one_plus_weight", cast="after_gain")
    projector = PooledProjector(side=math.isqrt(tokens), norm=norm)
    token = config.either("image_token_index", "image_token_id", default=262_144)
    return ImageTower(token=token, **seen.fields, projector=projector, seen="whole")


_TWO_LAYER: Table = {"images.projector.first": "linear_1", "images.projector.second": "linear_2"}
_POOLED: Table = {
    "images.projector.norm": "mm_soft_emb_norm",
    "images.projector.projection.weight": To("mm_input_projection_weight", Transposed()),
}
VISION: Mapping[str, Vision] = {"llava": Vision(llava, _TWO_LAYER), "gemma3": Vision(gemma3, _POOLED, "token_type_ids")}
"""Model type of a composite -> its images."""
