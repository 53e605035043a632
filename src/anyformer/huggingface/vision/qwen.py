"""The towers of Qwen-VL: images of any size, patches that turn by row and column, squares of them merged to tokens.

Sources: the configuration and modelling classes of transformers 5.23 (keys, defaults, names).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Names, Rows, Shaped, Table, To
from anyformer.huggingface.words.names import QKV
from anyformer.huggingface.words.names import gated_names as with_gate
from anyformer.parts import (
    Attention,
    Axial,
    Bidirectional,
    Block,
    ChainedProjector,
    Chunk,
    FeedForward,
    GridTower,
    ImageEncoder,
    LayerNorm,
    LinearProjector,
    MergedProjector,
    Patches,
    Projection,
    RMSNorm,
    Rotary,
    pre_norm,
    stack,
)
from anyformer.parts.embedding.patches_module import cut
from anyformer.parts.images.encoder_module import Images
from anyformer.parts.images.grid_order import grid_order
from anyformer.parts.images.projector import Projector
from anyformer.parts.norms.norm import Norm

SECTIONS = {"mrope_section": [16, 24, 24]}
"""The rotary axes of Qwen2-VL's text: pairs that turn by time, by row and by column."""
STORED: Mapping[str, str] = {r"(?:model\.)?(visual\..*)": r"\1"}
"""Pattern of a tower's names in files -> the name here."""
EPS = 1e-6
"""Of every norm of the towers."""
_INERT = ("in_chans", "initializer_range", "spatial_patch_size", "tokens_per_second")
"""Keys that change nothing of images: those of published files that transformers does not read, and the clock of films."""


def qwen2_vl(config: Config) -> ImageEncoder:
    """Wang et al. 2024 (arXiv 2409.12191), section 2.1."""
    inner = tower_table(config)
    width = inner("embed_dim", 1280)
    inner("hidden_size", 3584)  # the text's width, which the shapes of the merger's weights show
    norm, activation = LayerNorm(eps=EPS), words.activation(inner, "hidden_act", "quick_gelu")
    network = FeedForward(width=int(width * inner("mlp_ratio", 4)), activation=activation, gated=False, bias=("up", "down"))
    block = pre_norm(norm, turning(inner), network)
    return grid_tower(config, inner, width, [block] * inner("depth", 32), MergedProjector(side=side_of(inner), norm=norm))


def qwen2_5_vl(config: Config) -> ImageEncoder:
    """Bai et al. 2025 (arXiv 2502.13923), section 2.1: RMSNorm, gated networks, and windows in all layers but a few."""
    inner = tower_table(config)
    return _windowed(config, inner, turning(inner), token=151_655)


def exaone4_5(config: Config) -> ImageEncoder:
    """LG AI Research 2026, EXAONE 4.5: the same with grouped queries, before a text whose positions have one axis."""
    inner = tower_table(config)
    attention = turning(inner).but(kv_heads=inner("num_key_value_heads", 8))
    return _windowed(config, inner, attention, token=67, counted="line")


def hyperclovax(config: Config) -> ImageEncoder:
    """NAVER Cloud 2025, HyperCLOVA X SEED Think: that of Qwen2.5-VL with one more matrix to the text."""
    inner = tower_table(config, "qwen2_5_vl_vision", "qwen2_5_vl")
    wide = inner("out_hidden_size", 3584)
    return _windowed(config, inner, turning(inner), between=wide, token=128_060, counted="line")


def _windowed(config: Config, inner: Config, attention: Attention, *, between: int | None = None, **more: Any) -> ImageEncoder:
    """`between`: features behind the merger, where one more matrix leads from there to the text."""
    width = inner("hidden_size", 3584)
    inner("out_hidden_size", 3584)
    norm, side = RMSNorm(eps=EPS), side_of(inner)
    inner.assume(intermediate_size=3420)
    network = words.feedforward(inner, bias=True)
    window = inner("window_size", 112) // side // patch_of(inner) * side
    if window < 1:
        raise HuggingFaceError(f"{inner.where}: window_size = {inner('window_size', 112)} pixels is no square of patches")
    whole = set(inner("fullatt_block_indexes", [7, 15, 23, 31]))
    blocks = {True: pre_norm(norm, attention, network)}
    blocks[False] = pre_norm(norm, attention.but(mask=Chunk(size=window**2)), network)
    layers = [blocks[number in whole] for number in range(inner("depth", 32))]
    projector: Projector = MergedProjector(side=side, norm=norm)
    if between is not None:
        projector = ChainedProjector(first=projector, between=between, then=LinearProjector())
    return grid_tower(config, inner, width, layers, projector, window=window, **more)


def tower_table(config: Config, wanted: str = "", *older: str) -> Config:
    """The tower's table, of which older files give the composite's own type; `wanted`: its type, where not that one's.

    `older`: what other files call it.
    """
    wanted = wanted or f"{config.model_type}_vision"
    table = {"model_type": config.model_type, **config("vision_config", {})}
    named = str(table["model_type"])
    if named not in (wanted, config.model_type, *older):
        raise HuggingFaceError(
            f"{config.where}: vision_config: a tower of type {named!r} is not read here, only {wanted}: read "
            f"the text model alone, without images"
        )
    return Config(table, f"{config.where}: vision_config")


def side_of(inner: Config) -> int:
    """Patches along the side of a square that becomes a token."""
    return int(inner("spatial_merge_size", 2))


def patch_of(inner: Config, usual: int = 14) -> int:
    """Pixels of a patch's side."""
    return int(inner("patch_size", usual))


def turning(inner: Config, heads: int = 16) -> Attention:
    """Attention over all patches of an image, which turn by row and column; `heads`: how many where no key says it."""
    heads = inner("num_heads", heads)
    return Attention(heads=heads, mask=Bidirectional(), project=Projection(bias=words.ALL), place=turns(inner))


def turns(inner: Config) -> Rotary:
    """How patches turn by row and column."""
    rope = dict(inner("rope_parameters", None) or {})
    theta, kind = rope.pop("rope_theta", None), rope.pop("rope_type", "axial")
    if rope or kind != "axial":
        raise HuggingFaceError(f"{inner.where}: rope_parameters of a tower are rope_type 'axial' and rope_theta alone")
    return Rotary(theta=10_000.0 if theta is None else float(theta), axes=Axial(), rotate_in="fp32")


def grid_tower(
    config: Config,
    inner: Config,
    width: int,
    layers: Sequence[Block],
    projector: Projector,
    *,
    patch: int = 14,
    patch_bias: bool = False,
    token: int = 151_655,
    final_norm: Norm | None = None,
    **more: Any,
) -> ImageEncoder:
    """The tower of these layers; `patch`, `token`: what absent keys mean."""
    frames = inner("temporal_patch_size", 2)
    patches = Patches(size=patch_of(inner, patch), channels=inner("in_channels", 3), frames=frames, bias=patch_bias)
    inner.finish(_INERT)
    unit = patches.size * projector.square
    return GridTower(
        token=config("image_token_id", token), image=-(-448 // unit) * unit, width=width, patches=patches,
        stack=stack(layers, final_norm=final_norm), projector=projector, **more,
    )  # fmt: skip


_LAYER: Table = {
    QKV: To("attn.qkv", Rows()),
    "attention.output": "attn.proj",
    "attention.norm_before": "norm1",
    "feedforward.norm_before": "norm2",
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
}


def names(tower: ImageEncoder) -> Names:
    """Names of the weights, ours to those of `visual`."""
    outside: Table = {
        "images.patches.projection.weight": patch_weights(tower),
        "images.projector.norm": "visual.merger.ln_q",
        "images.projector.first": "visual.merger.mlp.0",
        "images.projector.second": "visual.merger.mlp.2",
    }
    return Names(outside, {"images.stack": ("visual.blocks.{i}.", _LAYER)})


def patch_weights(tower: ImageEncoder) -> To:
    """The weights of patches, which are those of a convolution over frames, rows and columns."""
    patches = tower.patches
    return To(
        "visual.patch_embed.proj.weight",
        Shaped((tower.width, patches.channels, patches.frames, patches.size, patches.size)),
    )


def gated_names(tower: ImageEncoder) -> Names:
    """The same, with gated networks."""
    plain = names(tower)
    return Names(plain.outside, {"images.stack": ("visual.blocks.{i}.", {**_LAYER, **with_gate("mlp")})})


HYPERCLOVAX_STORED: Mapping[str, str] = {
    r"(?:model\.)?vision_model\.(.*)": r"visual.\1",
    r"(?:model\.)?(?:vision_)?(projector\..*)": r"\1",
}
"""Pattern of the names of HyperCLOVA X's tower in files -> the name here."""


def chained_names(tower: ImageEncoder) -> Names:
    """Those of gated networks, with the matrix behind the merger."""
    gated = gated_names(tower)
    ours, first = "images.projector.", "images.projector.first."
    merger = {name.replace(ours, first): to for name, to in gated.outside.items() if isinstance(name, str)}
    return Names({**merger, "images.projector.then.projection": "projector"}, gated.layers)


def arguments(tower: ImageEncoder, tokens_BT: Tensor, images: Images) -> dict[str, Tensor]:
    """Patches of all images one after the other, the grid of each, and the tokens of images marked."""
    size, grids, patches = tower.patches.size, [], []
    for image in images:
        rows, columns = image.shape[1] // size, image.shape[2] // size
        order = grid_order(rows, columns, tower.projector.square, None, image.device)
        grids.append([1, rows, columns])
        patches.append(cut(image[None], size, tower.patches.frames)[0, order.patches])
    marks = (tokens_BT == tower.token).int()
    return {"pixel_values": torch.cat(patches), "image_grid_thw": torch.tensor(grids), "mm_token_type_ids": marks}


def on_a_line(tower: ImageEncoder, tokens_BT: Tensor, images: Images) -> dict[str, Tensor]:
    """The same where the text has positions on one axis, and no mark of images."""
    given = arguments(tower, tokens_BT, images)
    return {name: given[name] for name in ("pixel_values", "image_grid_thw")}
