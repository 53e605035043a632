"""The tower of Llama 4: a class token behind the patches, which turn by column and row, and an adapter of their squares.

Sources: the configuration and modelling classes of transformers 5.23 (keys, defaults, names).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import Names, Shaped, Shapes, Table, To, under
from anyformer.huggingface.vision.encoders import LAYER, PROJECTOR, TOWER
from anyformer.huggingface.vision.qwen import tower_table
from anyformer.huggingface.words.vit_line import side_of
from anyformer.parts import (
    Attention,
    Axial,
    Bidirectional,
    ChainedProjector,
    FeedForward,
    ImageEncoder,
    ImageTower,
    LayerNorm,
    LearnedPosition,
    LinearProjector,
    Numbered,
    Patches,
    Projection,
    Rotary,
    SquaresProjector,
    TwoLayerProjector,
    pre_norm,
    stack,
)

_INERT = (
    "hidden_act", "initializer_range", "multi_modal_projector_bias", "norm_eps", "vision_feature_select_strategy",
    "vision_output_dim",
)  # fmt: skip
"""Keys that its classes do not read, but for the last, which is the width behind the adapter again."""


def llama4(config: Config) -> ImageEncoder:
    """Meta 2025, Llama 4: tiles of one size, every one an image of its own."""
    inner = tower_table(config, "llama4_vision_model")
    for name in ("attention_dropout", "projector_dropout"):
        inner.expect(name, 0.0, 0, why="towers are computed without dropout")
    patch, image, width = side_of(inner, "patch_size", 14), side_of(inner, "image_size", 448), inner("hidden_size", 768)
    wide, between = inner("projector_input_dim", 4096), inner("projector_output_dim", 4096)
    inner.expect("vision_output_dim", between, why="it is the width behind the adapter")
    ratio = inner("pixel_shuffle_ratio", 0.5)
    side = round(1 / ratio)
    if side < 2 or 1 / side != ratio:
        raise inner.refused("pixel_shuffle_ratio", ratio, "1 / n, of squares of n x n patches")
    if wide != between:
        raise inner.refused("projector_input_dim", wide, f"projector_output_dim = {between}, which its second matrix reads")
    network = inner("intermediate_size", 5632)
    if network != side**2 * width:
        raise inner.refused(
            "intermediate_size", network, f"{side**2 * width}, the features of a square, which the adapter reads"
        )
    norm = LayerNorm(eps=1e-5)
    attention = Attention(
        heads=inner("num_attention_heads", 16), mask=Bidirectional(), project=Projection(bias=words.ALL), place=_turns(inner)
    )
    wide_block = FeedForward(width=network, activation="gelu", gated=False, bias=("up", "down"))
    projector = ChainedProjector(
        first=SquaresProjector(side=side, inner=TwoLayerProjector(hidden=wide, bias=False)),
        between=between,
        activation="gelu",
        then=LinearProjector(bias=False),
    )
    patches = Patches(size=patch, channels=inner("num_channels", 3), class_tokens=1, bias=False, coordinates=Numbered())
    position = LearnedPosition(length=1 + (image // patch) ** 2)
    layers = [pre_norm(norm, attention, wide_block)] * inner("num_hidden_layers", 34)
    inner.finish(_INERT)
    return ImageTower(
        token=config.either("image_token_index", "image_token_id", default=200_092), image=image, width=width, patches=patches,
        stack=stack(layers, position=position, input_norm=norm, final_norm=norm), skipped=1, projector=projector,
    )  # fmt: skip


def _turns(inner: Config) -> Rotary:
    rope = dict(inner("rope_parameters", None) or {})
    theta, kind = rope.pop("rope_theta", None), rope.pop("rope_type", "default")
    if rope or kind != "default":
        raise inner.refused("rope_parameters", inner("rope_parameters"), "rope_type 'default' and rope_theta alone")
    theta = inner("rope_theta", 10_000.0) if theta is None else theta
    return Rotary(theta=float(theta), axes=Axial(), pairing="adjacent", rotate_in="fp32")


@dataclass(frozen=True)
class LastFirst:
    """Rows of which the last stands first here."""

    def read(self, stored: Sequence[Tensor], shapes: Shapes) -> list[Tensor]:
        return [x.roll(1, 0) for x in stored]

    def write(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        return [x.roll(-1, 0) for x in parameters]


_LAYER: Table = {
    **LAYER,
    "attention.output": "self_attn.o_proj",
    "attention.norm_before": "input_layernorm",
    "feedforward.norm_before": "post_attention_layernorm",
}


def llama4_names(tower: ImageEncoder) -> Names:
    """Names of the weights, ours to those here."""
    outside: Table = {
        "images.patches.projection.weight": "patch_embedding.linear.weight",
        "images.patches.class_tokens": To("class_embedding", Shaped((-1,))),
        "images.stack.position.weight": To("positional_embedding_vlm", LastFirst()),
        "images.stack.input_norm": "layernorm_pre",
        "images.stack.final_norm": "layernorm_post",
        "images.projector.first.inner.first": "vision_adapter.mlp.fc1",
        "images.projector.first.inner.second": "vision_adapter.mlp.fc2",
    }
    every = {**under(TOWER, outside), **under(PROJECTOR, {"images.projector.then.projection": "linear_1"})}
    return Names(every, {"images.stack": (f"{TOWER}model.layers.{{i}}.", _LAYER)})


def class_token_first(x_nSD: Tensor) -> Tensor:
    """The positions of its layers, of which the last stands first here."""
    return x_nSD.roll(1, 1)


LLAMA4_STORED: Mapping[str, str] = {
    r"(?:model\.)?vision_model\.(.*)": rf"{TOWER}\1",
    r"(?:model\.)?multi_modal_projector\.(.*)": rf"{PROJECTOR}\1",
}
"""Pattern of names in files -> the name here."""
