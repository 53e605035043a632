"""The towers of GLM-4.1V, 4.5V and 4.6V, and of GLM-OCR: squares of patches downsampled by a matrix.

Sources: the configuration and modelling classes of transformers 5.23 (keys, defaults, names).
"""

from __future__ import annotations

from collections.abc import Mapping

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import Names, Rows, Shaped, Table, Then, To
from anyformer.huggingface.vision.pixtral import FeatureMajor
from anyformer.huggingface.vision.qwen import grid_tower, patch_weights, side_of, tower_table, turning
from anyformer.huggingface.words.names import QKV, gated_names
from anyformer.parts import (
    DownsampledProjector,
    FeedForward,
    ImageEncoder,
    LayerNorm,
    Projection,
    QKNorm,
    ResampledPosition,
    RMSNorm,
    pre_norm,
)

SECTIONS = {"mrope_section": [8, 12, 12]}
"""The rotary axes of their texts: pairs that turn by time, by row and by column."""
TOKENS: Mapping[str, int] = {"glm4v": 151_343, "glm46v": 151_343, "glm4v_moe": 151_363, "glmga": 151_343}
"""Model type -> the token of images where no key names it."""


def glm4v(config: Config) -> ImageEncoder:
    """GLM-V Team 2025 (arXiv 2507.01006), section 2: positions are learned, resampled, and turn too."""
    inner = tower_table(config, "glm4v_moe_vision" if config.model_type == "glm4v_moe" else "glm4v_vision")
    inner.expect("attention_bias", False)
    inner.expect("attention_dropout", 0.0, 0, why="towers are computed without dropout")
    width, wide, activation = (
        inner("hidden_size", 1536),
        inner("out_hidden_size", 4096),
        words.activation(inner, "hidden_act", "silu"),
    )
    norm = RMSNorm(eps=inner("rms_norm_eps", 1e-5))
    attention = turning(inner, heads=12).but(project=Projection(bias=()))
    block = pre_norm(norm, attention, FeedForward(width=wide, activation=activation))
    projector = DownsampledProjector(
        side=side_of(inner), hidden=inner("intermediate_size", 13_696), norm=LayerNorm(), activation=activation
    )
    position = ResampledPosition(side=inner("image_size", 336) // inner("patch_size", 14), by="bicubic", corners="edges")
    return grid_tower(
        config, inner, width, [block] * inner("depth", 24), projector, patch_bias=True, token=TOKENS[config.model_type],
        final_norm=norm, patch_norm=norm, position=position,
    )  # fmt: skip


def glm_ocr(config: Config) -> ImageEncoder:
    """GLM-OCR (Z.ai 2026): positions turn alone, and queries and keys are normed."""
    inner = tower_table(config, "glm_ocr_vision")
    inner.expect("attention_dropout", 0.0, 0, why="towers are computed without dropout")
    inner("image_size", 336)
    width, wide, activation = (
        inner("hidden_size", 1024),
        inner("out_hidden_size", 1536),
        words.activation(inner, "hidden_act", "silu"),
    )
    norm, biased = RMSNorm(eps=inner("rms_norm_eps", 1e-5)), inner("attention_bias", True)
    attention = turning(inner).but(project=Projection(bias=words.ALL if biased else ()), qk_norm=QKNorm(norm=norm))
    inner.assume(intermediate_size=4096)
    block = pre_norm(norm, attention, words.feedforward(inner, bias=biased))
    hidden = wide * inner("in_channels", 3)
    projector = DownsampledProjector(side=side_of(inner), hidden=hidden, norm=LayerNorm(), activation=activation)
    return grid_tower(
        config, inner, width, [block] * inner("depth", 24), projector, patch_bias=True, token=59_280, final_norm=norm
    )


_LAYER: Table = {
    QKV: To("attn.qkv", Rows()),
    "attention.output": "attn.proj",
    "attention.query_norm": "attn.q_norm",
    "attention.key_norm": "attn.k_norm",
    "attention.norm_before": "norm1",
    "feedforward.norm_before": "norm2",
    **gated_names("mlp"),
}


def names(tower: ImageEncoder) -> Names:
    """Names of the weights, ours to those of `visual`."""
    side = tower.projector.square
    squares = Then(Shaped((-1, tower.width, side, side), (-1, side**2 * tower.width)), FeatureMajor(side**2))
    outside: Table = {
        "images.patches.projection.weight": patch_weights(tower),
        "images.patches.projection.bias": "visual.patch_embed.proj.bias",
        "images.patch_norm": "visual.post_conv_layernorm",
        "images.position.weight": "visual.embeddings.position_embedding.weight",
        "images.stack.final_norm": "visual.post_layernorm",
        "images.projector.squares.weight": To("visual.downsample.weight", squares),
        "images.projector.squares.bias": "visual.downsample.bias",
        "images.projector.projection": "visual.merger.proj",
        "images.projector.norm": "visual.merger.post_projection_norm",
        **{f"images.projector.{side}": f"visual.merger.{side}_proj" for side in ("gate", "up", "down")},
    }
    return Names(outside, {"images.stack": ("visual.blocks.{i}.", _LAYER)})
