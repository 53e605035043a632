"""InternVL: its own vision transformer, and squares of patches before a projector of two layers.

Sources: the configuration and modelling classes of transformers 5.23 (keys, defaults, names).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.describe import change_all
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import Names, Rows, Shaped, Table, To, under
from anyformer.huggingface.vision.encoders import PROJECTOR, TOWER, computed_layers, skipped
from anyformer.huggingface.vision.qwen import tower_table
from anyformer.huggingface.vocabulary import SIZE, SIZES
from anyformer.huggingface.words.names import QKV
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    FeedForward,
    Gain,
    ImageEncoder,
    ImageTower,
    LayerNorm,
    LearnedPosition,
    Patches,
    Projection,
    QKNorm,
    RMSNorm,
    SquaresProjector,
    TwoLayerProjector,
    pre_norm,
    stack,
)

_INERT = ("initializer_range", "use_mask_token", "hidden_dropout_prob", "projection_dropout", "drop_path_rate")
"""Keys that change nothing: branches of a tower are never dropped here."""


def internvl(config: Config) -> ImageEncoder:
    """Chen et al. 2024 (arXiv 2404.16821), section 3.1; Zhu et al. 2025, "InternVL3" (arXiv 2504.10479)."""
    return _tower(config, biased=False)


def qianfan_ocr(config: Config) -> ImageEncoder:
    """Baidu 2026, Qianfan-OCR: the same, with biases of queries, keys and values by default, before Qwen 3."""
    return _tower(config, biased=True)


def _tower(config: Config, *, biased: bool) -> ImageEncoder:
    """`biased`: what an absent `attention_bias` means."""
    inner, layer = tower_table(config), config("vision_feature_layer", -1)
    inner.assume(attention_bias=biased)
    patches = Patches(size=_side(inner, "patch_size", 14), channels=inner("num_channels", 3), class_tokens=1)
    image, ratio = _side(inner, "image_size", 448), config("downsample_ratio", 0.5)
    block, norm = _block(inner), inner("layer_norm_eps", 1e-6)
    inner.expect("use_absolute_position_embeddings", True)
    around: dict[str, Any] = {"position": LearnedPosition(length=1 + (image // patches.size) ** 2)}
    if not inner("use_mean_pooling", True) and layer == -1:
        around["final_norm"] = LayerNorm(eps=norm)
    depth = computed_layers(inner, inner("num_hidden_layers", 24), layer)
    width = inner("hidden_size", 1024)
    inner.finish(_INERT)
    activation = words.activation(config, "projector_hidden_act", "gelu")
    projector = SquaresProjector(side=int(1 / ratio), inner=TwoLayerProjector(norm=LayerNorm(), activation=activation))
    return ImageTower(
        token=config("image_token_id", 151_667), image=image, width=width, patches=patches,
        stack=stack([block] * depth, **around), skipped=skipped(config, usual="default"), projector=projector,
    )  # fmt: skip


def _block(inner: Config) -> Block:
    """Pre-norm layers whose branches have a learned gain for every feature."""
    for name in ("attention_dropout", "hidden_dropout_prob", "projection_dropout"):
        inner.expect(name, 0.0, 0, why="towers are computed without dropout")
    kind, eps = inner("norm_type", "layer_norm"), inner("layer_norm_eps", 1e-6)
    if kind not in ("layer_norm", "rms_norm"):
        raise inner.refused("norm_type", kind, "layer_norm or rms_norm")
    norm = LayerNorm(eps=eps) if kind == "layer_norm" else RMSNorm(eps=eps)
    bias = words.ALL if inner("attention_bias", False) else ("output",)
    attention = Attention(heads=inner("num_attention_heads", 16), mask=Bidirectional(), project=Projection(bias=bias))
    if inner("use_qk_norm", False):
        attention = attention.but(qk_norm=QKNorm(norm=RMSNorm(eps=1e-6), over="projection"))
    activation = words.activation(inner, "hidden_act", "gelu")
    network = FeedForward(width=inner("intermediate_size", 4096), activation=activation, gated=False, bias=("up", "down"))
    gain = Gain(initial=inner("layer_scale_init_value", 0.1))
    return change_all(pre_norm(norm, attention, network), {"attention.gain": gain, "feedforward.gain": gain})


def _side(inner: Config, key: str, usual: int) -> int:
    """A side in pixels, of a number or of two equal ones."""
    value = inner(key, usual, kind=SIZE | SIZES)
    sides = [value] * 2 if isinstance(value, int) else list(value)
    if len(sides) != 2 or sides[0] != sides[1]:
        raise inner.refused(key, value, "one number, or two equal ones: other images are not read")
    return int(sides[0])


_LAYER: Table = {
    **{f"attention.{side}": f"attention.{side[0]}_proj" for side in words.QKV},
    "attention.output": "attention.projection_layer",
    "attention.query_norm": "attention.q_norm",
    "attention.key_norm": "attention.k_norm",
    "attention.norm_before": "layernorm_before",
    "attention.gain": "lambda_1",
    "feedforward.norm_before": "layernorm_after",
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
    "feedforward.gain": "lambda_2",
}
_PROJECTOR: Table = {
    "images.projector.inner.norm": "layer_norm",
    "images.projector.inner.first": "linear_1",
    "images.projector.inner.second": "linear_2",
}


def names(tower: ImageEncoder) -> Names:
    """Names of the weights, ours to those here."""
    patches, width = tower.patches, tower.width
    outside: Table = {
        "images.patches.projection.weight": To(
            "embeddings.patch_embeddings.projection.weight", Shaped((width, patches.channels, patches.size, patches.size))
        ),
        "images.patches.projection.bias": "embeddings.patch_embeddings.projection.bias",
        "images.patches.class_tokens": To("embeddings.cls_token", Shaped((1, 1, width))),
        "images.stack.position.weight": To("embeddings.position_embeddings", Shaped((1, -1, width))),
        "images.stack.final_norm": "layernorm",
    }
    every = {**under(TOWER, outside), **under(PROJECTOR, _PROJECTOR)}
    return Names(every, {"images.stack": (f"{TOWER}encoder.layer.{{i}}.", _LAYER)})


_QIANFAN: Table = {
    QKV: To("attn.qkv", Rows()),
    "attention.output": "attn.proj",
    "attention.query_norm": "attention.q_norm",
    "attention.key_norm": "attention.k_norm",
    "attention.norm_before": "norm1",
    "attention.gain": "ls1",
    "feedforward.norm_before": "norm2",
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
    "feedforward.gain": "ls2",
}
QIANFAN_STORED: Mapping[str, str] = {r"vision_model\.(.*)": rf"{TOWER}\1", r"(mlp1\..*)": r"\1"}
"""Pattern of the names in files of Qianfan-OCR, which are those of InternVL's authors -> the name here."""


def qianfan_names(tower: ImageEncoder) -> Names:
    """Names of the weights as InternVL's authors have them."""
    patches, width = tower.patches, tower.width
    outside: Table = {
        "images.patches.projection.weight": To(
            "embeddings.patch_embedding.weight", Shaped((width, patches.channels, patches.size, patches.size))
        ),
        "images.patches.projection.bias": "embeddings.patch_embedding.bias",
        "images.patches.class_tokens": To("embeddings.class_embedding", Shaped((1, 1, width))),
        "images.stack.position.weight": To("embeddings.position_embedding", Shaped((1, -1, width))),
        "images.stack.final_norm": "layernorm",
    }
    projector: Table = {
        "images.projector.inner.norm": "mlp1.0",
        "images.projector.inner.first": "mlp1.1",
        "images.projector.inner.second": "mlp1.3",
    }
    return Names({**under(TOWER, outside), **projector}, {"images.stack": (f"{TOWER}encoder.layers.{{i}}.", _QIANFAN)})
