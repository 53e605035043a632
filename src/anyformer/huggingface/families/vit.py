"""ViT, DeiT and DINOv2: encoders of images cut into patches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from anyformer.describe import change_all, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.bert import encoder_names
from anyformer.huggingface.families.encoder_heads import classes, head_of, write_head
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Rows, Shaped, Stacked, Table, Then, To
from anyformer.huggingface.spelling import activation, initialisation, write_activation
from anyformer.model import Architecture, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    FeedForward,
    Gain,
    Head,
    LayerNorm,
    LearnedPosition,
    Patches,
    pre_norm,
)
from anyformer.parts.block import Block
from anyformer.parts.heads import PROJECTIONS

ATTENTION: Table = {
    "attention.query": "attention.attention.query",
    "attention.key": "attention.attention.key",
    "attention.value": "attention.attention.value",
    "attention.output": "attention.output.dense",
}
VIT: Table = {
    **ATTENTION,
    "attention.norm_before": "layernorm_before",
    "feedforward.norm_before": "layernorm_after",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
}
DINO: Table = {
    **ATTENTION,
    "attention.norm_before": "norm1",
    "attention.gain": "layer_scale1.lambda1",
    "feedforward.norm_before": "norm2",
    "feedforward.gain": "layer_scale2.lambda1",
}
PLAIN: Table = {"feedforward.up": "mlp.fc1", "feedforward.down": "mlp.fc2"}
GATED: Table = {
    ("feedforward.gate", "feedforward.up"): To("mlp.weights_in", Rows()),
    "feedforward.down": "mlp.weights_out",
}


def side(config: Config, name: str, default: int) -> int:
    """A size in pixels, given once or as two equal ones."""
    value = config(name, default)
    sides = value if isinstance(value, list) else [value, value]
    if len(sides) != 2 or sides[0] != sides[1]:
        raise HuggingFaceError(f"{config.where}: {name} = {value} is not supported for {config.model_type}, only a square")
    return int(sides[0])


def attention_of(config: Config) -> Attention:
    return Attention(
        heads=config("num_attention_heads", 12),
        bias=PROJECTIONS if config("qkv_bias", True) else ("output",),
        mask=Bidirectional(),
        dropout=config("attention_probs_dropout_prob", 0.0),
    )


def images(config: Config, block: Block, norm: LayerNorm, *, patch: int, class_tokens: int, head: Head | None) -> Architecture:
    """An encoder of square images; `patch`: pixels of a patch's side where nothing is said."""
    patch = side(config, "patch_size", patch)
    patches = (side(config, "image_size", 224) // patch) ** 2
    return encoder_only(
        Patches(size=patch, channels=config("num_channels", 3), class_tokens=class_tokens),
        config("hidden_size", 768),
        [block] * config("num_hidden_layers", 12),
        position=LearnedPosition(length=patches + class_tokens),
        dropout=config("hidden_dropout_prob", 0.0),
        final_norm=norm,
        head=head,
        initialisation=initialisation(config),
    )


def classifier(config: Config) -> Head | None:
    """Classes from what the first position holds; none where the class is that of the encoder alone."""
    return head_of(config, {"ForImageClassification": classes(config, pool="first")})


def reader(class_tokens: int) -> Callable[[Config], Architecture]:
    def read(config: Config) -> Architecture:
        norm = LayerNorm(eps=config("layer_norm_eps", 1e-12))
        feedforward = FeedForward(
            width=config("intermediate_size", 3072),
            activation=activation(config("hidden_act", "gelu")),
            gated=False,
            bias=("up", "down"),
        )
        block = pre_norm(norm, attention_of(config), feedforward, dropout=config("hidden_dropout_prob", 0.0))
        return images(config, block, norm, patch=16, class_tokens=class_tokens, head=classifier(config))

    return read


def read_dino(config: Config) -> Architecture:
    """Features only: its classifier reads the first position beside the mean of the others."""
    if config.task not in ("", "Model"):
        raise HuggingFaceError(f"{config.where}: {config.model_type} is read as features, not with the head of {config.task}")
    norm, width = LayerNorm(eps=config("layer_norm_eps", 1e-6)), int(config("hidden_size") * config("mlp_ratio", 4))
    gated, acted = config("use_swiglu_ffn", False), activation(config("hidden_act", "gelu"))
    feedforward = FeedForward(width=width, activation=acted, gated=False, bias=("up", "down"))
    if gated:
        two_thirds = (int(width * 2 / 3) + 7) // 8 * 8
        feedforward = FeedForward(width=two_thirds, activation="silu", bias=("gate", "up", "down"))
    gain, path = Gain(initial=config("layerscale_value", 1.0)), config("drop_path_rate", 0.0)
    block = change_all(
        pre_norm(norm, attention_of(config), feedforward),
        {"attention.gain": gain, "feedforward.gain": gain, "attention.drop_path": path, "feedforward.drop_path": path},
    )
    return images(config, block, norm, patch=14, class_tokens=1, head=None)


def common(architecture: Architecture) -> dict[str, Any]:
    attention: Attention = get(architecture, "encoder.layer.attention.sublayer")
    patch, first = get(architecture, "embedding.size"), get(architecture, "embedding.class_tokens")
    return {
        "num_channels": get(architecture, "embedding.channels"),
        "patch_size": patch,
        "image_size": patch * math.isqrt(get(architecture, "encoder.position.length") - first),
        "hidden_size": architecture.width,
        "num_hidden_layers": architecture.output_stack.depth,
        "num_attention_heads": attention.heads,
        "qkv_bias": "query" in attention.bias,
        "attention_probs_dropout_prob": attention.dropout,
        "hidden_dropout_prob": get(architecture, "encoder.dropout"),
        "layer_norm_eps": get(architecture, "encoder.final_norm.eps"),
    }


def writer(name: str) -> Callable[[Architecture], dict[str, Any]]:
    """`name`: their class without its task."""

    def write(architecture: Architecture) -> dict[str, Any]:
        return (
            common(architecture)
            | write_head(architecture, name, "ForImageClassification")
            | {
                "intermediate_size": get(architecture, "encoder.layer.feedforward.width"),
                "hidden_act": write_activation(get(architecture, "encoder.layer.feedforward.activation")),
            }
        )

    return write


def write_dino(architecture: Architecture) -> dict[str, Any]:
    feedforward: FeedForward = get(architecture, "encoder.layer.feedforward.sublayer")
    width = architecture.width
    fits = range(1, 65)
    if feedforward.gated:
        ratio = next((n for n in fits if (int(n * width * 2 / 3) + 7) // 8 * 8 == feedforward.width), 4)
    else:
        ratio = feedforward.width // width
    return common(architecture) | {
        "mlp_ratio": ratio,
        "use_swiglu_ffn": feedforward.gated,
        "hidden_act": "gelu" if feedforward.gated else write_activation(feedforward.activation),
        "layerscale_value": get(architecture, "encoder.layer.attention.gain.initial"),
        "drop_path_rate": get(architecture, "encoder.layer.attention.drop_path"),
    }


def outside(architecture: Architecture) -> Table:
    width, patch, channels = architecture.width, get(architecture, "embedding.size"), get(architecture, "embedding.channels")
    first = get(architecture, "embedding.class_tokens")
    tokens = To("embeddings.cls_token", Shaped((1, 1, width)))
    if first == 2:
        tokens = To("embeddings.{x}_token", Then(Stacked(), Shaped((2, 1, 1, width))), ("cls", "distillation"))
    return {
        "embedding.class_tokens": tokens,
        "embedding.projection.weight": To(
            "embeddings.patch_embeddings.projection.weight", Shaped((width, channels, patch, patch))
        ),
        "embedding.projection.bias": "embeddings.patch_embeddings.projection.bias",
        "encoder.position.weight": To("embeddings.position_embeddings", Shaped((1, -1, width))),
        "encoder.final_norm": "layernorm",
    }


def namer(base: str) -> Callable[[Architecture], Names]:
    def names(architecture: Architecture) -> Names:
        head: Table = {"head": "classifier"} if architecture.head else {}
        return encoder_names(architecture, base, outside(architecture), head, VIT)

    return names


def dino_names(architecture: Architecture) -> Names:
    inner = GATED if get(architecture, "encoder.layer.feedforward.gated") else PLAIN
    return encoder_names(architecture, "dinov2", outside(architecture), {}, DINO, inner)


IGNORED = (r"(.*\.)?pooler\..*", r"(.*\.)?embeddings\.mask_token")
INERT = ("encoder_stride", "pooler_act", "pooler_output_size")
FAMILIES = (
    Family("vit", reader(1), writer("ViT"), namer("vit"), "ViTForImageClassification", inert=INERT, ignored=IGNORED),
    Family("deit", reader(2), writer("DeiT"), namer("deit"), "DeiTForImageClassification", inert=INERT, ignored=IGNORED),
    Family(
        "dinov2", read_dino, write_dino, dino_names, "Dinov2Model",
        inert=("apply_layernorm", "out_features", "out_indices", "reshape_hidden_states", "stage_names", "use_mask_token"),
        ignored=IGNORED,
    ),
)  # fmt: skip
