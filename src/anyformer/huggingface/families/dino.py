"""DINOv2, with and without registers, and DINOv3: encoders of images that were trained without labels."""

from __future__ import annotations

from functools import partial
from typing import Any

from anyformer.describe import change_all
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.bert_line import encoder_names
from anyformer.huggingface.words.encoder_heads import classes, head_of
from anyformer.huggingface.words.names import UP_DOWN, gated_names, projections
from anyformer.huggingface.words.vit_line import (
    ATTENTION,
    image_attention,
    image_encoder,
    image_names,
    registers,
    side_of,
)
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Axial,
    Bidirectional,
    Block,
    Centred,
    FeedForward,
    Gain,
    Head,
    Patches,
    Projection,
    Rotary,
    Softmax,
    pre_norm,
)


def read_v2(name: str, config: Config) -> Architecture:
    """Classes read the first position beside the mean of the patches; the class of the encoder alone has no head."""
    norm, width = words.layer_norm(config, 1e-6), int(config("hidden_size") * config("mlp_ratio", 4, _ratio))
    gated, acted = config("use_swiglu_ffn", False, "feedforward.gated"), words.activation(config, default="gelu", at=_acted)
    network = FeedForward(width=width, activation=acted, gated=False, bias=("up", "down"))
    if gated:
        network = FeedForward(width=_two_thirds(width), activation="silu", bias=("gate", "up", "down"))
    count = 1 + (config("num_register_tokens", 4, _registers) if name == "Dinov2WithRegisters" else 0)
    block = _scaled(config, pre_norm(norm, image_attention(config), network))
    patch = 14 if name == "Dinov2" else 16
    return image_encoder(config, block, norm, patch=patch, class_tokens=count, head=_head(config, name, count), placed=1)


def _head(config: Config, name: str, front: int) -> Head | None:
    """The head of the configuration's class; none where it names none."""
    if config.target is None and not config.task:
        return None
    return head_of(config, name, {"ForImageClassification": classes(config, pool="first_and_mean", front=front)})


def read_v3(config: Config) -> Architecture:
    """Rotary positions by the middles of patches. Training in transformers moves and stretches them at random, which is noise
    of its loss: a run here does not (`pos_embed_shift`, `pos_embed_jitter`, `pos_embed_rescale`)."""
    if config.task not in ("", "Model"):
        raise HuggingFaceError(f"{config.where}: {config.model_type} is read as features, not with the head of {config.task}")
    config.assume(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536, patch_size=16)
    norm = words.layer_norm(config, 1e-5)
    rotary = Rotary(theta=config("rope_theta", 100.0, "attention.rotary.theta"), axes=Axial())
    attention = Attention(
        heads=config("num_attention_heads"),
        mask=Bidirectional(),
        project=Projection(bias=tuple(side for side, key, usual in _BIASES if config(key, usual, _biased(side)))),
        place=rotary,
        weigh=Softmax(dropout=config("attention_dropout", 0.0)),
    )
    gated = config("use_gated_mlp", False, "feedforward.gated")
    network = words.feedforward(config, default="gelu", gated=gated, bias=config("mlp_bias", True))
    block, count = _scaled(config, pre_norm(norm, attention, network)), 1 + config("num_register_tokens", 0, _registers)
    patches = Patches(
        size=side_of(config, "patch_size", 16),
        channels=config("num_channels", 3, "embedding.channels"),
        class_tokens=count,
        coordinates=Centred(),
    )
    return Architecture(
        width=config("hidden_size"),
        embedding=patches,
        encoder=words.stacked(words.repeated(config, block), final_norm=norm),
        head=None,
        initialisation=words.initialisation(config),
    )


_BIASES = (
    ("query", "query_bias", True), ("key", "key_bias", False), ("value", "value_bias", True), ("output", "proj_bias", True),
)  # fmt: skip


def _biased(side: str) -> Any:
    return lambda target: side in target("attention.bias")


def _scaled(config: Config, block: Block) -> Block:
    """The block with a learned factor of every feature of a branch (layer scale), which training may drop."""
    gain = Gain(initial=config("layerscale_value", 1.0, "attention.gain.initial"))
    path = config("drop_path_rate", 0.0, "attention.drop_path")
    return change_all(
        block,
        {"attention.gain": gain, "feedforward.gain": gain, "attention.drop_path": path, "feedforward.drop_path": path},
    )


def _registers(target: Target) -> int:
    return int(target("embedding.class_tokens")) - 1


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


_LAYER: Table = {
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


def v2_names(base: str, architecture: Architecture) -> Names:
    inner = _GATED if Target(architecture)("feedforward.gated") else _PLAIN
    outside = {**image_names(architecture), **_tokens(architecture, 0 if base == "dinov2" else 1)}
    head: Table = {"head": "classifier"} if architecture.head else {}
    return encoder_names(architecture, base, outside, head, ATTENTION, _LAYER, inner)


def v3_names(architecture: Architecture) -> Names:
    outside = {**image_names(architecture, "embeddings.patch_embeddings", "norm"), **_tokens(architecture, 1)}
    network = gated_names("mlp") if Target(architecture)("feedforward.gated") else UP_DOWN
    heads = projections("attention.*_proj")
    return encoder_names(architecture, "", outside, {}, heads, _LAYER, network, path="layer.{i}.")


def _tokens(architecture: Architecture, stored: int) -> Table:
    """The name of the registers where the class has a tensor of them."""
    count = Target(architecture)("embedding.class_tokens") - 1
    return {"embedding.class_tokens": registers(count, architecture.width)} if stored else {}


_IGNORED = (r"(.*\.)?embeddings\.mask_token",)
_INERT = ("apply_layernorm", "out_features", "out_indices", "reshape_hidden_states", "stage_names", "use_mask_token")
_V3 = ("image_size", "pos_embed_jitter", "pos_embed_rescale", "pos_embed_shift", "return_class_token")
FAMILIES = (
    *(
        Family(base, partial(read_v2, name), partial(v2_names, base), f"{name}Model", inert=_INERT, ignored=_IGNORED, sees=True)
        for base, name in (("dinov2", "Dinov2"), ("dinov2_with_registers", "Dinov2WithRegisters"))
    ),
    Family("dinov3_vit", read_v3, v3_names, "DINOv3ViTModel", inert=(*_INERT, *_V3), ignored=_IGNORED, sees=True),
)
