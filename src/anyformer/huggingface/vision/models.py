"""The composites that are read with their images: where an image stands, and how its features reach the text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor

from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import Names, Table, To, Transposed
from anyformer.huggingface.vision import glm, intern, janus, llama4, pixtral, qwen, qwen3, siglip2, squares, tiled
from anyformer.huggingface.vision.encoders import PROJECTOR, STORED, TOWER, WITH_FINAL_NORM, encoder, names, skipped
from anyformer.huggingface.words.activations import activation
from anyformer.parts import (
    GridTower,
    ImageEncoder,
    ImageTower,
    LayerNorm,
    LinearProjector,
    PooledProjector,
    RMSNorm,
    TwoLayerProjector,
)
from anyformer.parts.images.encoder_module import Images

Arguments = Callable[[ImageEncoder, Tensor, Images], dict[str, Tensor]]


@dataclass(frozen=True)
class Vision:
    """The images of a composite: its tower, and the names of its weights and the projector's."""

    read: Callable[[Config], ImageEncoder]
    names: Callable[[ImageEncoder], Names]
    """The weights of tower and projector, ours to those here."""
    arguments: Arguments
    """What transformers' class is given: of the tower, tokens (B, T) and images."""
    stored: Mapping[str, str]
    """Pattern of the tower's names in files, published or saved by transformers 5 -> the name here."""
    seen: Callable[[Tensor], Tensor] | None = None
    """What a layer of transformers' tower gives -> its positions (n, S, D) in the order here; None: they are."""
    axes: Mapping[str, Any] = field(default_factory=dict)
    """What the text's table of rotary positions says of several axes where it names none; empty where it has one axis."""


def llava(config: Config) -> ImageEncoder:
    """Liu et al. 2023 (arXiv 2310.03744): the patches of the last layer but one, two layers to the text's width."""
    layer = config("vision_feature_layer", -2)
    projector = TwoLayerProjector(
        activation=activation(config, "projector_hidden_act", "gelu"), bias=config("multimodal_projector_bias", True)
    )
    token = config.either("image_token_index", "image_token_id", default=32_000)
    if config("vision_config").get("model_type") == "pixtral":
        config.expect("vision_feature_select_strategy", "full", why="Pixtral's tower has no first position to leave out")
        table = pixtral.pixtral_table(config)
        return pixtral.pixtral(table, layer, projector, token=token, breaks=pixtral.BREAKS)
    seen = encoder(config, layer, usual="clip_vision_model")
    return ImageTower(token=token, **seen.fields, skipped=skipped(config, usual="default"), projector=projector)


def vipllava(config: Config) -> ImageEncoder:
    """Cai et al. 2024 (arXiv 2312.00784), section 3.1: features of several layers side by side, a norm, two layers."""
    seen = encoder(config, config("vision_feature_layer", [-2, -5, -8, -11, 6]), usual="clip_vision_model")
    norm = LayerNorm(eps=config("projector_layernorm_eps", 1e-5))
    projector = TwoLayerProjector(activation=activation(config, "projector_hidden_act", "gelu"), norm=norm)
    token = config.either("image_token_index", "image_token_id", default=32_000)
    return ImageTower(token=token, **seen.fields, skipped=1, projector=projector)


def deepseek_vl(config: Config) -> ImageEncoder:
    """Lu et al. 2024 (arXiv 2403.05525), section 3.1: SigLIP's patches, two layers."""
    seen = encoder(config, WITH_FINAL_NORM, usual="siglip_vision_model")
    return ImageTower(token=config("image_token_id", 100_015), **seen.fields, projector=TwoLayerProjector())


def paligemma(config: Config) -> ImageEncoder:
    """Beyer et al. 2024 (arXiv 2407.07726): SigLIP's patches, one matrix."""
    seen = encoder(config, WITH_FINAL_NORM, usual="siglip_vision_model")
    token = config.either("image_token_index", "image_token_id", default=256_000)
    return ImageTower(token=token, **seen.fields, projector=LinearProjector())


def gemma3(config: Config) -> ImageEncoder:
    """Gemma Team 2025 (arXiv 2503.19786): SigLIP's patches averaged to a few tokens that see one another."""
    seen = encoder(config, WITH_FINAL_NORM, usual="siglip_vision_model")
    tokens = config("mm_tokens_per_image", 256)
    norm = RMSNorm(eps=seen.norm.eps, gain="one_plus_weight", cast="after_gain")
    projector = PooledProjector(side=math.isqrt(tokens), norm=norm)
    token = config.either("image_token_index", "image_token_id", default=262_144)
    return ImageTower(token=token, **seen.fields, projector=projector, seen="whole")


def _pixels(tower: ImageEncoder, tokens_BT: Tensor, images: Images) -> dict[str, Tensor]:
    assert isinstance(images, Tensor), "they have one size"
    return {"pixel_values": images}


def _marked(tower: ImageEncoder, tokens_BT: Tensor, images: Images) -> dict[str, Tensor]:
    """With the tokens of images marked."""
    return {**_pixels(tower, tokens_BT, images), "token_type_ids": (tokens_BT == tower.token).long()}


def _of_llava(tower: ImageEncoder, tokens_BT: Tensor, images: Images) -> dict[str, Tensor]:
    """Images of one size, or each of its own with Pixtral's tower."""
    return (pixtral.arguments if isinstance(tower, GridTower) else _pixels)(tower, tokens_BT, images)


def _names_of_llava(tower: ImageEncoder) -> Names:
    return (pixtral.names if isinstance(tower, GridTower) else names)(_TWO_LAYER, tower)


_TWO_LAYER: Table = {"images.projector.first": "linear_1", "images.projector.second": "linear_2"}
_NORMED: Table = {"images.projector.norm": "projector_layernorm", **_TWO_LAYER}
_ALIGNED: Table = {"images.projector.first": "linear1", "images.projector.second": "linear2"}
_DEEPSEEK_STORED: Mapping[str, str] = {
    r"(?:model\.)?vision_model\.(?:vision_model\.)?(.*)": rf"{TOWER}\1",
    r"(?:model\.)?aligner\.(.*)": rf"{PROJECTOR}\1",
}
"""Pattern of DeepSeek-VL's names in files -> the name here."""
_VIDEO_LLAVA_STORED: Mapping[str, str] = {r"(?:model\.)?image_tower\.(?:vision_model\.)?(.*)": rf"{TOWER}\1", **STORED}
"""Pattern of Video-LLaVA's names in files, of which the tower for images is one of two -> the name here."""
_LINEAR: Table = {"images.projector.projection": "linear"}
_POOLED: Table = {
    "images.projector.norm": "mm_soft_emb_norm",
    "images.projector.projection.weight": To("mm_input_projection_weight", Transposed()),
}
VISION: Mapping[str, Vision] = {
    "llava": Vision(llava, _names_of_llava, _of_llava, STORED),
    **dict.fromkeys(
        ("llava_next", "llava_next_video"),
        Vision(tiled.llava_next, tiled.tiled_names, tiled.arguments, tiled.TILED_STORED),
    ),
    "llava_onevision": Vision(tiled.llava_onevision, tiled.tiled_names, tiled.arguments, tiled.TILED_STORED),
    "video_llava": Vision(llava, _names_of_llava, _of_llava, _VIDEO_LLAVA_STORED),
    **dict.fromkeys(("gemma3", "shieldgemma2"), Vision(gemma3, partial(names, _POOLED), _marked, STORED)),
    "qwen2_vl": Vision(qwen.qwen2_vl, qwen.names, qwen.arguments, qwen.STORED, axes=qwen.SECTIONS),
    "qwen2_5_vl": Vision(qwen.qwen2_5_vl, qwen.gated_names, qwen.arguments, qwen.STORED, axes=qwen.SECTIONS),
    "exaone4_5": Vision(qwen.exaone4_5, qwen.gated_names, qwen.on_a_line, qwen.STORED),
    "hyperclovax_vision_v2": Vision(qwen.hyperclovax, qwen.chained_names, qwen.on_a_line, qwen.HYPERCLOVAX_STORED),
    "lfm2_vl": Vision(siglip2.lfm2_vl, siglip2.lfm2_names, siglip2.padded, STORED),
    "paddleocr_vl": Vision(
        siglip2.paddleocr_vl, siglip2.paddle_names, siglip2.by_rows, siglip2.PADDLE_STORED, axes=qwen.SECTIONS
    ),
    "video_llama_3": Vision(siglip2.video_llama_3, siglip2.video_names, siglip2.unmerged, siglip2.VIDEO_STORED),
    "llama4": Vision(llama4.llama4, llama4.llama4_names, _pixels, llama4.LLAMA4_STORED, seen=llama4.class_token_first),
    "mistral3": Vision(pixtral.mistral3, pixtral.condensed_names, pixtral.arguments, STORED),
    "lighton_ocr": Vision(pixtral.lighton_ocr, pixtral.condensed_names, pixtral.arguments, pixtral.LIGHTON_STORED),
    "vipllava": Vision(vipllava, partial(names, _NORMED), _pixels, STORED),
    "deepseek_vl": Vision(deepseek_vl, partial(names, _ALIGNED), _pixels, _DEEPSEEK_STORED),
    "janus": Vision(janus.janus, janus.janus_names, _pixels, _DEEPSEEK_STORED),
    "internvl": Vision(intern.internvl, intern.names, _pixels, STORED),
    "qianfan_ocr": Vision(intern.qianfan_ocr, intern.qianfan_names, _pixels, intern.QIANFAN_STORED),
    "paligemma": Vision(paligemma, partial(names, _LINEAR), _pixels, STORED),
    **dict.fromkeys(
        ("idefics3", "smolvlm"),
        Vision(squares.idefics3, partial(names, squares.LINEAR), squares.of_one_row, squares.IDEFICS_STORED),
    ),
    "aya_vision": Vision(squares.aya_vision, partial(names, squares.GATED), _pixels, STORED),
    "cohere2_vision": Vision(squares.cohere2_vision, partial(names, squares.GATED), _pixels, STORED),
    **dict.fromkeys(
        ("qwen3_vl", "qwen3_vl_moe"),
        Vision(qwen3.qwen3_vl, qwen3.names, qwen.arguments, qwen.STORED, axes=qwen3.INTERLEAVED),
    ),
    "cosmos3_omni": Vision(qwen3.qwen3_vl, qwen3.names, qwen.arguments, qwen3.COSMOS_STORED, axes=qwen3.INTERLEAVED),
    **dict.fromkeys(
        ("qwen3_5", "qwen3_5_moe"),
        Vision(qwen3.qwen3_5, qwen3.names, qwen.arguments, qwen.STORED, axes=qwen3.INTERLEAVED_SHARE),
    ),
    **dict.fromkeys(
        ("glm4v", "glm46v", "glm4v_moe", "glmga"),
        Vision(glm.glm4v, glm.names, qwen.arguments, qwen.STORED, axes=glm.SECTIONS),
    ),
    "glm_ocr": Vision(glm.glm_ocr, glm.names, qwen.arguments, qwen.STORED, axes=glm.SECTIONS),
}
"""Model type of a composite -> its images."""
