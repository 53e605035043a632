"""CLIP's and SigLIP's encoders of images, as towers of a composite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyformer.describe import did_you_mean
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Names, Shaped, Table, To, under
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    ImageEncoder,
    LayerNorm,
    LearnedPosition,
    Patches,
    Projection,
    Rotary,
    Stack,
    pre_norm,
    stack,
)

WITH_FINAL_NORM = None
"""The layer of an encoder that is read with all its layers and the norm behind them."""
Layer = int | Sequence[int] | None
"""A number among the values between layers, the embedded patches first, negative from the last; several of them, whose features
stand side by side; or `WITH_FINAL_NORM`."""


@dataclass(frozen=True)
class Encoder:
    """An encoder of images in the fields of an `ImageTower`."""

    image: int
    width: int
    patches: Patches
    norm: LayerNorm
    """The norm of its layers."""
    stack: Stack
    joined: tuple[int, ...]

    @property
    def fields(self) -> dict[str, Any]:
        own = {"image": self.image, "width": self.width, "patches": self.patches, "stack": self.stack}
        return {**own, "joined": self.joined} if self.joined else own


def clip(config: Config, layer: Layer) -> Encoder:
    """Radford et al. 2021 (arXiv 2103.00020): a class token, patches without bias, a norm before the layers."""
    config.assume(patch_size=32)
    norm = words.layer_norm(config, 1e-5)
    patches = Patches(size=config("patch_size"), channels=config("num_channels", 3), class_tokens=1, bias=False)
    return encoder_of(config, patches, layer_of(config, norm, "quick_gelu"), norm, layer, input_norm=norm)


def siglip(config: Config, layer: Layer) -> Encoder:
    """Zhai et al. 2023 (arXiv 2303.15343): patches alone; the head that pools them is not read."""
    config.assume(patch_size=16)
    norm = words.layer_norm(config, 1e-6)
    patches = Patches(size=config("patch_size"), channels=config("num_channels", 3))
    return encoder_of(config, patches, layer_of(config, norm, "gelu_pytorch_tanh"), norm, layer)


def layer_of(config: Config, norm: LayerNorm, activation: str, place: Rotary | None = None) -> Block:
    """A layer of CLIP's and SigLIP's: a norm before attention with biases, and one before a network of two layers.

    `activation`: the usual one; `place`: how patches turn, where they do.
    """
    config.expect("attention_dropout", 0.0, 0, why="towers are computed without dropout")
    attention = Attention(heads=config("num_attention_heads", 12), mask=Bidirectional(), project=Projection(bias=words.ALL))
    attention = attention if place is None else attention.but(place=place)
    config.assume(intermediate_size=3072)
    return pre_norm(norm, attention, words.plain(config, activation))


def encoder_of(config: Config, patches: Patches, block: Block, norm: LayerNorm, layer: Layer, **around: Any) -> Encoder:
    """An encoder of square images whose layers are alike, up to the one that is read."""
    image, depth = config("image_size", 224), config("num_hidden_layers", 12)
    position = LearnedPosition(length=patches.class_tokens + (image // patches.size) ** 2)
    if layer is WITH_FINAL_NORM:
        around["final_norm"] = norm
    several = list(layer) if isinstance(layer, Sequence) else []
    ends = [computed_layers(config, depth, one) for one in several] or [computed_layers(config, depth, layer)]
    layers = stack([block] * max(ends), position=position, **around)
    return Encoder(image, config("hidden_size", 768), patches, norm, layers, tuple(end - 1 for end in ends if several))


def computed_layers(config: Config, depth: int, layer: Layer) -> int:
    """The layers of a tower of `depth` that stand before what is read; refuses several."""
    if isinstance(layer, Sequence):
        raise HuggingFaceError(f"{config.where}: layers {list(layer)} of the tower are asked for, and here one is read")
    computed = depth if layer is WITH_FINAL_NORM else layer if layer >= 0 else depth + 1 + layer
    if not 1 <= computed <= depth:
        raise HuggingFaceError(f"{config.where}: layer {layer} of the tower is asked for, and it has {depth}")
    return computed


def skipped(config: Config, *, usual: str) -> int:
    """The first positions that are not read, by `vision_feature_select_strategy`, whatever they are; `usual`: its default."""
    config.expect("vision_feature_select_strategy", usual, "default", "full")
    return 0 if config("vision_feature_select_strategy", usual) == "full" else 1


def idefics3(config: Config, layer: Layer) -> Encoder:
    """SigLIP's encoder as Idefics 3 and SmolVLM have it: no head, and other sizes where keys are absent."""
    config.assume(patch_size=32, hidden_size=1152, num_attention_heads=16)
    return siglip(config, layer)


READERS: Mapping[str, Callable[[Config, Layer], Encoder]] = {
    "clip_vision_model": clip,
    "siglip_vision_model": siglip,
    "idefics3_vision": idefics3,
    "smolvlm_vision": idefics3,
}
"""Model type of a tower -> its reader."""
_INERT = (
    "initializer_factor", "max_position_embeddings", "num_image_tokens", "projection_dim", "projection_size",
    "projector_hidden_act", "vision_use_head", "vocab_size",
)  # fmt: skip


def encoder(config: Config, layer: Layer, *, usual: str) -> Encoder:
    """The encoder that the `vision_config` of a composite describes; `usual`: the type where it names none."""
    where = f"{config.where}: vision_config"
    table = {"model_type": usual, **config("vision_config")}
    inner = Config(table, where)
    named = inner.model_type
    if named not in READERS:
        raise HuggingFaceError(
            f"{where}: a tower of type {named!r} is not read{did_you_mean(named, READERS)}, only {', '.join(READERS)}: "
            f"read the text model alone, without images"
        )
    found = READERS[named](inner, layer)
    inner.finish(_INERT)
    return found


TOWER, PROJECTOR = "vision_tower.", "multi_modal_projector."
STORED: Mapping[str, str] = {
    r"(?:model\.)?vision_tower\.(?:vision_model\.)?(.*)": rf"{TOWER}\1",
    r"(?:model\.)?multi_modal_projector\.(.*)": rf"{PROJECTOR}\1",
}
"""Pattern of names in files, published or saved by transformers 5 -> the name here."""
LAYER: Table = {
    **{f"attention.{side}": f"self_attn.{side[0]}_proj" for side in words.QKV},
    "attention.output": "self_attn.out_proj",
    "attention.norm_before": "layer_norm1",
    "feedforward.norm_before": "layer_norm2",
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
}


def names(projector: Table, tower: ImageEncoder) -> Names:
    """Names of the weights of a tower, ours to those here, and of its `projector`, ours to those within that module."""
    patches = tower.patches
    outside: Table = {
        "images.patches.projection.weight": To(
            "embeddings.patch_embedding.weight", Shaped((tower.width, patches.channels, patches.size, patches.size))
        ),
        "images.patches.projection.bias": "embeddings.patch_embedding.bias",
        "images.patches.class_tokens": To("embeddings.class_embedding", Shaped((-1,))),
        "images.stack.position.weight": "embeddings.position_embedding.weight",
        "images.stack.input_norm": "pre_layrnorm",
        "images.stack.final_norm": "post_layernorm",
    }
    every = {**under(TOWER, outside), **under(PROJECTOR, projector)}
    return Names(every, {"images.stack": (f"{TOWER}encoder.layers.{{i}}.", LAYER)})
