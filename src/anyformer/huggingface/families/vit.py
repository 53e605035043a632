"""ViT, DeiT and DINOv2: encoders of images cut into patches."""

from __future__ import annotations

import math
from functools import partial

from anyformer.describe import change_all
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Shaped, Stacked, Table, Then, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.bert_line import encoder_names
from anyformer.huggingface.words.encoder_heads import classes, head_of
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    FeedForward,
    Gain,
    Head,
    LearnedPosition,
    Patches,
    Projection,
    Softmax,
    pre_norm,
)


def read(name: str, class_tokens: int, config: Config) -> Architecture:
    """Classes read the first position; the class of the encoder alone has no head."""
    norm, network = words.layer_norm(config, 1e-12), words.plain(config, width=3072)
    head = head_of(config, name, {"ForImageClassification": classes(config, pool="first")})
    block = pre_norm(norm, _attention(config), network, dropout=config("hidden_dropout_prob", 0.0))
    return _images(config, block, norm, patch=16, class_tokens=class_tokens, head=head)


def read_dino(config: Config) -> Architecture:
    """Features only: its classifier reads the first position beside the mean of the others."""
    if config.task not in ("", "Model"):
        raise HuggingFaceError(f"{config.where}: {config.model_type} is read as features, not with the head of {config.task}")
    norm, width = words.layer_norm(config, 1e-6), int(config("hidden_size") * config("mlp_ratio", 4, _ratio))
    gated, acted = config("use_swiglu_ffn", False, "feedforward.gated"), words.activation(config, default="gelu", at=_acted)
    network = FeedForward(width=width, activation=acted, gated=False, bias=("up", "down"))
    if gated:
        network = FeedForward(width=_two_thirds(width), activation="silu", bias=("gate", "up", "down"))
    gain = Gain(initial=config("layerscale_value", 1.0, "attention.gain.initial"))
    path = config("drop_path_rate", 0.0, "attention.drop_path")
    block = change_all(
        pre_norm(norm, _attention(config), network),
        {"attention.gain": gain, "feedforward.gain": gain, "attention.drop_path": path, "feedforward.drop_path": path},
    )
    return _images(config, block, norm, patch=14, class_tokens=1, head=None)


def _attention(config: Config) -> Attention:
    bias = words.ALL if config("qkv_bias", True, lambda target: "query" in target("attention.bias")) else ("output",)
    heads, rate = config("num_attention_heads", 12), config("attention_probs_dropout_prob", 0.0)
    return Attention(heads=heads, mask=Bidirectional(), project=Projection(bias=bias), weigh=Softmax(dropout=rate))


def _images(
    config: Config, block: Block, norm: words.Norm, *, patch: int, class_tokens: int, head: Head | None
) -> Architecture:
    """An encoder of square images; `patch`: the default side of a patch in pixels."""
    config.assume(num_hidden_layers=12, hidden_size=768, hidden_dropout_prob=0.0, patch_size=patch)
    patch = _side(config, "patch_size", patch)
    patches = (_side(config, "image_size", 224) // patch) ** 2
    position = LearnedPosition(length=patches + class_tokens)
    around = {"position": position, "dropout": config("hidden_dropout_prob", 0.0), "final_norm": norm}
    return Architecture(
        width=config("hidden_size"),
        embedding=Patches(size=patch, channels=config("num_channels", 3, "embedding.channels"), class_tokens=class_tokens),
        encoder=words.stacked(words.repeated(config, block), **around),
        head=head,
        initialisation=words.initialisation(config),
    )


def _side(config: Config, name: str, default: int) -> int:
    """A size in pixels, given as one number or as two equal ones."""
    value = config(name, default, "embedding.size" if name == "patch_size" else _pixels)
    sides = value if isinstance(value, list) else [value, value]
    if len(sides) != 2 or sides[0] != sides[1]:
        raise HuggingFaceError(f"{config.where}: {name} = {value} is not supported for {config.model_type}, only a square")
    return int(sides[0])


def _pixels(target: Target) -> int:
    patches = target("stack.position.length") - target("embedding.class_tokens")
    return int(target("embedding.size") * math.isqrt(patches))


def _acted(target: Target) -> str:
    """The activation, which DINOv2 reads for networks without a gate only."""
    return "gelu" if target("feedforward.gated") else str(target("feedforward.activation"))


def _two_thirds(width: int) -> int:
    """The width of a gated network with as many weights as one of `width`, rounded up to a multiple of 8."""
    return (int(width * 2 / 3) + 7) // 8 * 8


def _ratio(target: Target) -> int:
    """The network's width over D, before two thirds of it are taken."""
    width, wide = target.architecture.width, target("feedforward.width")
    if not target("feedforward.gated"):
        return int(wide // width)
    return next((n for n in range(1, 65) if _two_thirds(n * width) == wide), 4)


_ATTENTION: Table = {
    **{f"attention.{side}": f"attention.attention.{side}" for side in words.QKV},
    "attention.output": "attention.output.dense",
}
_VIT: Table = {
    "attention.norm_before": "layernorm_before",
    "feedforward.norm_before": "layernorm_after",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
}
_DINO: Table = {
    "attention.norm_before": "norm1",
    "attention.gain": "layer_scale1.lambda1",
    "feedforward.norm_before": "norm2",
    "feedforward.gain": "layer_scale2.lambda1",
}
_PLAIN: Table = {"feedforward.up": "mlp.fc1", "feedforward.down": "mlp.fc2"}
_GATED: Table = {
    ("feedforward.gate", "feedforward.up"): To("mlp.weights_in", Rows()),
    "feedforward.down": "mlp.weights_out",
}


def _outside(architecture: Architecture) -> Table:
    width, target = architecture.width, Target(architecture)
    patch, channels = target("embedding.size"), target("embedding.channels")
    tokens = To("embeddings.cls_token", Shaped((1, 1, width)))
    if target("embedding.class_tokens") == 2:
        tokens = To("embeddings.{x}_token", Then(Stacked(), Shaped((2, 1, 1, width))), ("cls", "distillation"))
    projection = "embeddings.patch_embeddings.projection"
    return {
        "embedding.class_tokens": tokens,
        "embedding.projection.weight": To(f"{projection}.weight", Shaped((width, channels, patch, patch))),
        "embedding.projection.bias": f"{projection}.bias",
        "encoder.position.weight": To("embeddings.position_embeddings", Shaped((1, -1, width))),
        "encoder.final_norm": "layernorm",
    }


def names(base: str, architecture: Architecture) -> Names:
    head: Table = {"head": "classifier"} if architecture.head else {}
    return encoder_names(architecture, base, _outside(architecture), head, _ATTENTION, _VIT)


def dino_names(architecture: Architecture) -> Names:
    inner = _GATED if Target(architecture)("feedforward.gated") else _PLAIN
    return encoder_names(architecture, "dinov2", _outside(architecture), {}, _ATTENTION, _DINO, inner)


_IGNORED = (r"(.*\.)?pooler\..*", r"(.*\.)?embeddings\.mask_token")
_INERT = ("encoder_stride", "pooler_act", "pooler_output_size")
_DINO_INERT = ("apply_layernorm", "out_features", "out_indices", "reshape_hidden_states", "stage_names", "use_mask_token")
FAMILIES = (
    *(
        Family(base, partial(read, name, tokens), partial(names, base), f"{name}ForImageClassification", _INERT, _IGNORED)
        for base, name, tokens in (("vit", "ViT", 1), ("deit", "DeiT", 2))
    ),
    Family("dinov2", read_dino, dino_names, "Dinov2Model", inert=_DINO_INERT, ignored=_IGNORED),
)
