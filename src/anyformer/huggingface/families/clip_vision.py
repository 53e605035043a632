"""Encoders of images that were trained beside text: CLIP's, summed up by a class token, and SigLIP's, by a learned query."""

from __future__ import annotations

from typing import Any

from anyformer.describe import Named
from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError, MismatchError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Shaped, Table, To, under
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import projections
from anyformer.huggingface.words.vit_line import side_of
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    Branch,
    CrossAttention,
    FeedForward,
    Head,
    Latents,
    LayerNorm,
    LearnedPosition,
    Patches,
    Projection,
    Softmax,
    Stack,
    Step,
    pre_norm,
)

_PROJECTED = "CLIPVisionModelWithProjection"


def read_clip(config: Config) -> Architecture:
    """Radford et al. 2021 (arXiv 2103.00020): the features of the class token behind the last norm, or a projection of them."""
    norm, attention, network = _sublayers(config, 32, "quick_gelu", 1e-5)
    head = Head(outputs=_outputs(config), pool="first")
    stack = _stack(config, pre_norm(norm, attention, network), 1, input_norm=norm, final_norm=norm)
    return _encoder(config, stack, _patches(config).but(class_tokens=1, bias=False), head=head)


def _outputs(config: Config) -> Any:
    """The features of the class: as many as the encoder has, or those of the projection."""
    if config.target is not None:
        head = config.target.architecture.head
        if head is None or head.outputs is None:
            raise MismatchError("the head is that of no class of CLIP's encoder")
        config.put(architectures=["CLIPVisionModel" if head.outputs == "features" else _PROJECTED])
    named = config.class_name or "CLIPVisionModel"
    if named not in ("CLIPVisionModel", _PROJECTED):
        raise HuggingFaceError(
            f"{config.where}: {config.model_type} is read as CLIPVisionModel or {_PROJECTED}, not as {named}"
        )
    dimensions = config("projection_dim", 512, _projected)
    return dimensions if named == _PROJECTED else "features"


def _projected(target: Target) -> int:
    outputs = target("head.outputs")
    if outputs == "features":
        raise MismatchError("the head is no projection")
    return int(outputs)


def read_siglip(config: Config) -> Architecture:
    """Zhai et al. 2023 (arXiv 2303.15343): one learned query reads the patches, and a network follows; or the patches alone."""
    if config.task not in ("", "Model"):
        raise HuggingFaceError(f"{config.where}: {config.model_type} is read as features, not with the head of {config.task}")
    sums_up = config("vision_use_head", True, lambda target: target.architecture.latents is not None)
    if config.target is not None:
        config.target = Target(config.target.architecture, "encoder")
    norm, attention, network = _sublayers(config, 16, "gelu_pytorch_tanh", 1e-6)
    stack = _stack(config, pre_norm(norm, attention, network), 0, final_norm=norm)
    made = _encoder(config, stack, _patches(config))
    if not sums_up:
        return made
    read = Branch(sublayer=CrossAttention(heads=attention.heads, project=Projection(bias=words.ALL)))
    steps = (
        Step(branches=Named({"cross_attention": read}), residual="none"),
        Step(branches=Named({"feedforward": Branch(norm_before=norm, sublayer=network)})),
    )
    decoder = words.stacked([("layer", Block(steps=steps))])
    return made.but(latents=Latents(count=1), decoder=decoder, head=Head(outputs="features", pool="first"))


def _sublayers(config: Config, patch: int, activation: str, eps: float) -> tuple[LayerNorm, Attention, FeedForward]:
    config.assume(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, patch_size=patch)
    attention = Attention(
        heads=config("num_attention_heads", 12),
        mask=Bidirectional(),
        project=Projection(bias=words.ALL),
        weigh=Softmax(dropout=config("attention_dropout", 0.0)),
    )
    return words.layer_norm(config, eps), attention, words.plain(config, activation)


def _patches(config: Config) -> Patches:
    return Patches(size=side_of(config, "patch_size", 16), channels=config("num_channels", 3, "embedding.channels"))


def _stack(config: Config, block: Block, class_tokens: int, **around: Any) -> Stack:
    side = side_of(config, "image_size", 224) // side_of(config, "patch_size", 16)
    return words.stacked(words.repeated(config, block), position=LearnedPosition(length=side * side + class_tokens), **around)


def _encoder(config: Config, stack: Stack, patches: Patches, head: Head | None = None) -> Architecture:
    return Architecture(
        width=config("hidden_size"), embedding=patches, encoder=stack, head=head, initialisation=words.initialisation(config)
    )


_LAYER: Table = {
    **projections("self_attn.*_proj", "self_attn.out_proj"),
    "attention.norm_before": "layer_norm1",
    "feedforward.norm_before": "layer_norm2",
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
}
_LAYERS = "encoder.layers.{i}."


def _outside(architecture: Architecture) -> Table:
    width, target = architecture.width, Target(architecture, "encoder")
    patch, channels = target("embedding.size"), target("embedding.channels")
    return {
        "embedding.class_tokens": To("embeddings.class_embedding", Shaped((-1,))),
        "embedding.projection.weight": To("embeddings.patch_embedding.weight", Shaped((width, channels, patch, patch))),
        "embedding.projection.bias": "embeddings.patch_embedding.bias",
        "encoder.position.weight": "embeddings.position_embedding.weight",
        "encoder.input_norm": "pre_layrnorm",
        "encoder.final_norm": "post_layernorm",
    }


def clip_names(architecture: Architecture) -> Names:
    projected = architecture.head is not None and architecture.head.outputs != "features"
    prefix = _BASE if projected else ""
    outside = {**under(prefix, _outside(architecture)), "head": "visual_projection"}
    return Names(outside, {"encoder": (prefix + _LAYERS, _LAYER)})


_POOLING: Table = {
    **{
        tuple(f"cross_attention.{side}.{leaf}" for side in words.QKV): To(f"attention.in_proj_{leaf}", Rows())
        for leaf in ("weight", "bias")
    },
    "cross_attention.output": "attention.out_proj",
    "feedforward.norm_before": "layernorm",
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
}


def siglip_names(architecture: Architecture) -> Names:
    probe = To("head.probe", Shaped((1, 1, architecture.width)))
    outside = {**_outside(architecture), "latents.weight": probe}
    return Names(outside, {"encoder": (_LAYERS, _LAYER), "decoder": ("head.", _POOLING)})


_BASE = "vision_model."
_OLDER = {rf"^{_BASE}": ""}
_IGNORED = (r".*position_ids",)
FAMILIES = (
    Family(
        "clip_vision_model", read_clip, clip_names, "CLIPVisionModel", inert=("initializer_factor",), ignored=_IGNORED,
        base=_BASE, sees=True,
    ),
    Family(
        "siglip_vision_model", read_siglip, siglip_names, "SiglipVisionModel", ignored=_IGNORED, older_names=_OLDER, sees=True,
    ),
)  # fmt: skip
