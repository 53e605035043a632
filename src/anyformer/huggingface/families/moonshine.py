"""Moonshine: an encoder of waves with rotary positions, and a decoder that reads it.

The class lets positions see samples of padding that their convolutions reach, and its norm over a row counts them; here a row
in a batch is as the row alone. `pad_head_dim_to_multiple_of` chooses a kernel and changes no result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Rows, Table, To
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.names import projections
from anyformer.huggingface.words.networks import Side
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    CrossAttention,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    Projection,
    Rotary,
    RowNorm,
    Softmax,
    Stack,
    WaveLayer,
    Waves,
    pre_norm,
    stack,
)

_NORM = LayerNorm(bias=False)


def waves(width: int) -> Waves:
    """Jeffries et al. 2024 (arXiv 2410.15608), section 3.1: a position every 384 samples."""
    return Waves(
        layers=(
            WaveLayer(
                kernel=127,
                stride=64,
                channels=width,
                activation="tanh",
                row_norm=RowNorm(groups=1),
                row_norm_at="after_activation",
            ),
            WaveLayer(kernel=7, stride=3, channels=2 * width, bias=True),
            WaveLayer(kernel=3, stride=2, bias=True),
        )
    )


def read(config: Config) -> Architecture:
    _check_heads(config)
    width = config("hidden_size", 288)
    rotary = words.rotary(config, fraction=0.9, pairing="adjacent")
    return Architecture(
        width=width,
        embedding=waves(width),
        decoder_embedding=Embedding(vocab=config("vocab_size", 32_768, "decoder_embedding.vocab")),
        encoder=_stack(config, "encoder", rotary),
        decoder=_stack(config, "decoder", rotary),
        head=Head(tied=config("tie_word_embeddings", True)),
        initialisation=words.initialisation(config),
    )


def _check_heads(config: Config) -> None:
    """Refuse what the class computes as something else: it has one number of heads for both sides, and for queries and keys."""
    of_both = [config(f"{side}_num_attention_heads", 8, f"{side}:attention.heads") for side in ("encoder", "decoder")]
    of_keys = [config(f"{side}_num_key_value_heads", None, _key_heads(side)) for side in ("encoder", "decoder")]
    found = {*of_both, *(heads for heads in of_keys if heads is not None)}
    if len(found) > 1:
        raise HuggingFaceError(
            f"{config.where}: encoder and decoder have {of_both} heads of queries and {of_keys} of keys, and the class of "
            f"moonshine computes with one number for all"
        )


def _key_heads(side: str) -> Callable[[Target], int]:
    return lambda target: int(target(f"{side}:attention.kv_heads") or target(f"{side}:attention.heads"))


def _stack(config: Config, side: str, rotary: Rotary) -> Stack:
    biased = config("attention_bias", False, lambda target: bool(target("attention.bias")))
    fields: dict[str, Any] = {
        "heads": config(f"{side}_num_attention_heads", 8),
        "project": Projection(bias=words.QKV if biased else ()),
        "weigh": Softmax(dropout=config("attention_dropout", 0.0)),
    }
    decodes = side == "decoder"
    activation = words.activation(config, f"{side}_hidden_act", "silu" if decodes else "gelu", f"{side}:feedforward.activation")
    sides: tuple[Side, ...] = ("gate", "up", "down") if decodes else ("up", "down")
    width = config("intermediate_size", 1152)
    network = FeedForward(width=width, activation=activation, gated=decodes, bias=sides)
    attention = Attention(**fields).but(rotary=rotary)
    block: Block
    if decodes:
        block = pre_norm(_NORM, attention, CrossAttention(**fields), network)
    else:
        block = pre_norm(_NORM, attention.but(mask=Bidirectional()), network)
    depth = config(f"{side}_num_hidden_layers", 6, lambda target: target.depth(side))
    return stack([block] * depth, final_norm=_NORM)


_ATTENTION = projections("self_attn.*_proj")
_ENCODER: Table = {
    **_ATTENTION,
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
    "attention.norm_before": "input_layernorm",
    "feedforward.norm_before": "post_attention_layernorm",
}
_DECODER: Table = {
    **_ATTENTION,
    **projections("encoder_attn.*_proj", ours="cross_attention"),
    ("feedforward.up", "feedforward.gate"): To("mlp.fc1", Rows()),
    "feedforward.down": "mlp.fc2",
    "attention.norm_before": "input_layernorm",
    "cross_attention.norm_before": "post_attention_layernorm",
    "feedforward.norm_before": "final_layernorm",
}
_NAMES = Names(
    {
        **{f"embedding.layers.{i}": f"model.encoder.conv{i + 1}" for i in range(3)},
        "embedding.layers.0.row_norm": "model.encoder.groupnorm",
        "encoder.final_norm": "model.encoder.layer_norm",
        "decoder_embedding": "model.decoder.embed_tokens",
        "decoder.final_norm": "model.decoder.norm",
        "head": "proj_out",
    },
    {"encoder": ("model.encoder.layers.{i}.", _ENCODER), "decoder": ("model.decoder.layers.{i}.", _DECODER)},
)
FAMILIES = (
    Family(
        "moonshine",
        read,
        _NAMES,
        "MoonshineForConditionalGeneration",
        inert=("max_position_embeddings", "pad_head_dim_to_multiple_of"),
        ignored=(r"proj_out\.weight",),
    ),
)
