"""Text towers that were trained beside images, without a head: CLIP's, which sees the past, and TIPSv2's, which sees all."""

from __future__ import annotations

from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.words.names import projections
from anyformer.model import Architecture
from anyformer.parts import (
    Bidirectional,
    Block,
    Causal,
    Embedding,
    LayerNorm,
    LearnedPosition,
    SinusoidalPosition,
    pre_norm,
)


def read_clip(config: Config) -> Architecture:
    config.assume(vocab_size=49_408, hidden_size=512, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=8)
    position = LearnedPosition(length=config("max_position_embeddings", 77, "stack.position.length"))
    norm, block = _layer(config, Causal(), "quick_gelu")
    return _tower(config, block, decoder={"position": position, "final_norm": norm})


def read_tips(config: Config) -> Architecture:
    config.assume(vocab_size=32_000, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12)
    # Its waves have no limit of length, and the class's limit serves its buffers.
    config("max_position_embeddings", None)
    position = SinusoidalPosition(layout="halves", spacing="inclusive")
    norm, block = _layer(config, Bidirectional(), "relu")
    made = _tower(config, block, encoder={"position": position, "final_norm": norm})
    return made.but(embedding=made.embedding.but(scale=words.root_scale(config, True, "scale_sqrt_depth")))


def read_siglip(config: Config) -> Architecture:
    """Zhai et al. 2023 (arXiv 2303.15343): a tower of texts that sees all, padding too."""
    config.assume(vocab_size=32_000, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12)
    position = LearnedPosition(length=config("max_position_embeddings", 64, "stack.position.length"))
    norm, block = _layer(config, Bidirectional(), "gelu_pytorch_tanh", 1e-6)
    return _tower(config, block, encoder={"position": position, "final_norm": norm})


def _layer(config: Config, mask: Causal | Bidirectional, activation: str, eps: float = 1e-5) -> tuple[LayerNorm, Block]:
    norm = words.layer_norm(config, eps)
    heads = words.full_heads(config, mask=mask, bias=words.ALL)
    return norm, pre_norm(norm, heads, words.plain(config, activation))


def _tower(config: Config, block: Block, **stacks: dict[str, Any]) -> Architecture:
    layers = words.repeated(config, block)
    return Architecture(
        width=config("hidden_size"),
        embedding=Embedding(vocab=config("vocab_size")),
        head=None,
        initialisation=words.initialisation(config),
        **{side: words.stacked(layers, **around) for side, around in stacks.items()},  # type: ignore[arg-type]
    )


_LAYER: Table = {
    **projections("self_attn.*_proj", "self_attn.out_proj"),
    "attention.norm_before": "layer_norm1",
    "feedforward.norm_before": "layer_norm2",
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
}
_FUSED: Table = {
    tuple(f"attention.{side}.{leaf}" for side in words.QKV): To(f"attn.in_proj_{leaf}", Rows()) for leaf in ("weight", "bias")
}
_OPEN: Table = {
    **_FUSED,
    "attention.output": "attn.out_proj",
    "attention.norm_before": "ln_1",
    "feedforward.norm_before": "ln_2",
    "feedforward.up": "mlp.c_fc",
    "feedforward.down": "mlp.c_proj",
}
"""Names as TIPSv2 is published, which are OpenCLIP's."""


def clip_names(architecture: Architecture) -> Names:
    return _names("decoder")


def siglip_names(architecture: Architecture) -> Names:
    return _names("encoder")


def _names(stack: str) -> Names:
    outside: Table = {
        "embedding": "embeddings.token_embedding",
        f"{stack}.position": "embeddings.position_embedding",
        f"{stack}.final_norm": "final_layer_norm",
    }
    return Names(outside, {stack: ("encoder.layers.{i}.", _LAYER)})


def tips_names(architecture: Architecture) -> Names:
    outside: Table = {"embedding": "token_embedding", "encoder.final_norm": "ln_final"}
    return Names(outside, {"encoder": ("transformer.resblocks.{i}.", _OPEN)})


FAMILIES = (
    Family(
        "clip_text_model",
        read_clip,
        clip_names,
        "CLIPTextModel",
        inert=("initializer_factor", "projection_dim"),
        ignored=(r".*position_ids",),
        older_names={r"^text_model\.": ""},
    ),
    Family(
        "tipsv2_text_model",
        read_tips,
        tips_names,
        "Tipsv2TextModel",
        inert=("pooling_epsilon",),
        older_names={r"^text_encoder\.": ""},
    ),
)
