"""The towers of Qwen3-VL and Qwen3.5: positions resampled from a square table, and features for the text's first layers.

Sources: the configuration and modelling classes of transformers 5.23 (keys, defaults, names).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.vision.qwen import EPS, STORED, grid_tower, patch_weights, side_of, tower_table, turning
from anyformer.huggingface.words.names import QKV
from anyformer.parts import DeepStack, FeedForward, ImageEncoder, LayerNorm, MergedProjector, ResampledPosition, pre_norm

INTERLEAVED = {"mrope_section": [24, 20, 20], "mrope_interleaved": True}
"""The rotary axes of Qwen3-VL's text."""
COSMOS_STORED: Mapping[str, str] = {
    **STORED,
    r"((?:blocks|merger|deepstack_merger_list|patch_embed|pos_embed)\..*)": r"visual.\1",
}
"""Pattern of the names of Cosmos 3's tower in files, which stand without a prefix -> the name here."""
INTERLEAVED_SHARE = {"mrope_section": [11, 11, 10], "mrope_interleaved": True}
"""Those of Qwen3.5's, of which a quarter of a head turns."""


def qwen3_vl(config: Config) -> ImageEncoder:
    """Bai et al. 2025 (arXiv 2511.21631), section 2: deep-stack; also of the reasoner of Cosmos 3 (NVIDIA 2026)."""
    inner = tower_table(config, "qwen3_vl_vision" if config.model_type == "cosmos3_omni" else "", "qwen3_vl")
    layers = tuple(inner("deepstack_visual_indexes", [8, 16, 24]))
    if sorted(set(layers)) != list(layers):
        raise inner.refused("deepstack_visual_indexes", list(layers), "numbers of layers, each once, ascending")
    deep = MergedProjector(side=side_of(inner), norm=LayerNorm(eps=EPS), norm_of="square")
    return _tower(config, inner, token=151_655, deep=DeepStack(layers=layers, projector=deep) if layers else None)


def qwen3_5(config: Config) -> ImageEncoder:
    """The same without a deep-stack."""
    return _tower(config, tower_table(config), token=248_056)


def _tower(config: Config, inner: Config, *, token: int, **more: Any) -> ImageEncoder:
    width = inner("hidden_size", 1152)
    inner("out_hidden_size", 3584)
    norm, activation = LayerNorm(eps=EPS), words.activation(inner, "hidden_act", "gelu_pytorch_tanh")
    network = FeedForward(width=inner("intermediate_size", 4304), activation=activation, gated=False, bias=("up", "down"))
    layers = [pre_norm(norm, turning(inner), network)] * inner("depth", 27)
    rows = inner("num_position_embeddings", 2304)
    if math.isqrt(rows) ** 2 != rows:
        raise inner.refused("num_position_embeddings", rows, "a square, the rows and columns of a table")
    return grid_tower(
        config, inner, width, layers, MergedProjector(side=side_of(inner), norm=norm), patch=16, patch_bias=True, token=token,
        position=ResampledPosition(side=math.isqrt(rows)), **more,
    )  # fmt: skip


_LAYER: Table = {
    QKV: To("attn.qkv", Rows()),
    "attention.output": "attn.proj",
    "attention.norm_before": "norm1",
    "feedforward.norm_before": "norm2",
    "feedforward.up": "mlp.linear_fc1",
    "feedforward.down": "mlp.linear_fc2",
}


def names(tower: ImageEncoder) -> Names:
    """Names of the weights, ours to those of `visual`."""
    outside: Table = {
        "images.patches.projection.weight": patch_weights(tower),
        "images.patches.projection.bias": "visual.patch_embed.proj.bias",
        "images.position.weight": "visual.pos_embed.weight",
        **_merger("images.projector", "visual.merger"),
    }
    for k in range(0 if tower.deep is None else len(tower.deep.layers)):
        outside = {**outside, **_merger(f"images.deep.{k}", f"visual.deepstack_merger_list.{k}")}
    return Names(outside, {"images.stack": ("visual.blocks.{i}.", _LAYER)})


def _merger(ours: str, theirs: str) -> Table:
    return {f"{ours}.norm": f"{theirs}.norm", f"{ours}.first": f"{theirs}.linear_fc1", f"{ours}.second": f"{theirs}.linear_fc2"}
