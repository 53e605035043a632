"""The tower of Pixtral: images of any size, patches that turn by row and column, in a text of one axis.

Sources: the configuration and modelling classes of transformers 5.23 (keys, defaults, names).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Names, Shaped, Shapes, Table, To, under
from anyformer.huggingface.vision.encoders import PROJECTOR, TOWER, Layer, computed_layers
from anyformer.huggingface.words.names import gated_names
from anyformer.parts import (
    Attention,
    Axial,
    Bidirectional,
    CondensedProjector,
    GridTower,
    ImageEncoder,
    Patches,
    RMSNorm,
    Rotary,
    TwoLayerProjector,
    pre_norm,
    stack,
)
from anyformer.parts.images.encoder_module import Images
from anyformer.parts.images.projector import Projector

_EPS = 1e-5
"""Of every norm of the tower."""
BREAKS = (12, 13)
"""`[IMG_BREAK]` and `[IMG_END]` of Mistral's tokenizers, which no configuration names."""
_INERT = ("head_dim", "initializer_range", "vocab_size")


def pixtral(inner: Config, layer: Layer, projector: Projector, **more: Any) -> ImageEncoder:
    """Agrawal et al. 2024 (arXiv 2410.07073), section 2.1."""
    width = inner("hidden_size", 1024)
    inner.assume(intermediate_size=4096, hidden_act="gelu")
    inner.expect("attention_dropout", 0.0, 0, why="towers are computed without dropout")
    norm, network = RMSNorm(eps=_EPS), words.feedforward(inner)
    block = pre_norm(norm, _turning(inner), network)
    patches = Patches(size=inner("patch_size", 16), channels=inner("num_channels", 3), bias=False)
    depth = computed_layers(inner, inner("num_hidden_layers", 24), layer)
    unit, image = patches.size * projector.square, inner("image_size", 1024)
    inner.finish(_INERT)
    return GridTower(
        image=max(image // unit, 1) * unit, width=width, patches=patches,
        stack=stack([block] * depth, input_norm=norm), projector=projector, counted="line",
        sequence="rows", **more,
    )  # fmt: skip


def mistral3(config: Config) -> ImageEncoder:
    """Mistral Small 3.1 (2025): squares of patches condensed to one, then two layers."""
    activation = words.activation(config, "projector_hidden_act", "gelu")
    then = TwoLayerProjector(activation=activation, bias=config("multimodal_projector_bias", False))
    token = config.either("image_token_index", "image_token_id", default=10)
    return _condensed(config, config("vision_feature_layer", -1), then, token=token, breaks=BREAKS)


def lighton_ocr(config: Config) -> ImageEncoder:
    """LightOn 2026: the same before Qwen 3."""
    return _condensed(config, -1, TwoLayerProjector(bias=False), token=config("image_token_id", 151_655))


def _condensed(config: Config, layer: Layer, inner: Projector, **more: Any) -> ImageEncoder:
    text: Mapping[str, Any] = config.written.get("text_config") or {}
    usual = 1e-5 if text.get("model_type") == "ministral3" else 1e-6
    norm = RMSNorm(eps=float(text.get("rms_norm_eps", usual)))
    projector = CondensedProjector(side=config("spatial_merge_size", 2), norm=norm, inner=inner)
    return pixtral(pixtral_table(config), layer, projector, **more)


def pixtral_table(config: Config) -> Config:
    """The tower's own table; refuses a tower of another type."""
    table = {"model_type": "pixtral", **config("vision_config")}
    where = f"{config.where}: vision_config"
    if table["model_type"] != "pixtral":
        raise HuggingFaceError(
            f"{where}: a tower of type {table['model_type']!r} is not read here, only pixtral: read the text model alone, "
            f"without images"
        )
    return Config(table, where)


def _turning(inner: Config) -> Attention:
    """Attention whose heads turn by row and column, with frequencies dealt out to both."""
    rope = dict(inner("rope_parameters", None) or {})
    theta, kind = rope.pop("rope_theta", None), rope.pop("rope_type", "axial")
    if rope or kind not in ("axial", "default"):
        raise HuggingFaceError(f"{inner.where}: rope_parameters of a tower are rope_type 'axial' and rope_theta alone")
    theta = float(inner("rope_theta", 10_000.0)) if theta is None else float(theta)
    place = Rotary(theta=theta, axes=Axial(frequencies="dealt"))
    return Attention(heads=inner("num_attention_heads", 16), mask=Bidirectional(), place=place)


@dataclass(frozen=True)
class FeatureMajor:
    """Columns that count the `patches` of a square within every feature, which here count features within every patch."""

    patches: int

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [x.unflatten(1, (-1, self.patches)).transpose(1, 2).flatten(1) for x in stored]  # type: ignore[no-untyped-call]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [x.unflatten(1, (self.patches, -1)).transpose(1, 2).flatten(1) for x in parameters]  # type: ignore[no-untyped-call]


_LAYER: Table = {
    **{f"attention.{side}": f"attention.{side[0]}_proj" for side in words.QKV},
    "attention.output": "attention.o_proj",
    "attention.norm_before": "attention_norm",
    "feedforward.norm_before": "ffn_norm",
    **gated_names("feed_forward"),
}


def names(projector: Table, tower: ImageEncoder) -> Names:
    """Names of the weights of a tower, ours to those here, and of its `projector`, ours to those within that module."""
    patches = tower.patches
    outside: Table = {
        "images.patches.projection.weight": To(
            "patch_conv.weight", Shaped((tower.width, patches.channels, patches.size, patches.size))
        ),
        "images.stack.input_norm": "ln_pre",
    }
    every = {**under(TOWER, outside), **under(PROJECTOR, projector)}
    return Names(every, {"images.stack": (f"{TOWER}transformer.layers.{{i}}.", _LAYER)})


def condensed_names(tower: ImageEncoder) -> Names:
    """The same of a projector that condenses squares."""
    projector: Table = {
        "images.projector.norm": "norm",
        "images.projector.merge.weight": To("patch_merger.merging_layer.weight", FeatureMajor(tower.projector.square**2)),
        "images.projector.inner.first": "linear_1",
        "images.projector.inner.second": "linear_2",
    }
    return names(projector, tower)


LIGHTON_STORED: Mapping[str, str] = {
    r"(?:model\.)?vision_encoder\.(.*)": rf"{TOWER}\1",
    r"(?:model\.)?vision_projection\.(.*)": rf"{PROJECTOR}\1",
}
"""Pattern of LightOn's names in files -> the name here."""


def arguments(tower: ImageEncoder, tokens_BT: Tensor, images: Images) -> dict[str, Tensor]:
    """All images padded to one size, and the size of each."""
    sizes = torch.tensor([image.shape[1:] for image in images])
    height, width = sizes.amax(0).tolist()
    padded = [torch.nn.functional.pad(x, (0, width - x.shape[2], 0, height - x.shape[1])) for x in images]
    return {"pixel_values": torch.stack(padded), "image_sizes": sizes}
