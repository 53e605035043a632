"""What dense decoders read and write alike: heads, positions, a plain feed-forward, and what stands around the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.llama import common
from anyformer.huggingface.rules import Rows, Table, To
from anyformer.huggingface.spelling import activation, initialisation, read_rotary, rope_parameters, write_rotary
from anyformer.model import Architecture, decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, Rotary, feedforward, heads
from anyformer.parts.block import Block
from anyformer.parts.stack import Around

QKV: tuple[heads.Projection, ...] = ("query", "key", "value")
PLAIN: tuple[feedforward.Projection, ...] = ("up", "down")
GATED: tuple[feedforward.Projection, ...] = ("gate", "up", "down")

FUSED_QKV: Table = {tuple(f"attention.{each}" for each in QKV): To("self_attn.qkv_proj", Rows())}
FUSED_GATE: Table = {
    ("feedforward.gate", "feedforward.up"): To("mlp.gate_up_proj", Rows()),
    "feedforward.down": "mlp.down_proj",
}
UP_DOWN: Table = {"feedforward.up": "mlp.up_proj", "feedforward.down": "mlp.down_proj"}


def read_attention(
    config: Config,
    rotary: Rotary,
    *,
    kv_heads: int | None = None,
    head_width: int | None = None,
    dropout: float = 0.0,
    **fields: Any,
) -> Attention:
    """Attention from the keys that families share. `kv_heads`, `head_width`, `dropout`: where the configuration is silent."""
    return Attention(
        heads=config("num_attention_heads"),
        kv_heads=config("num_key_value_heads", kv_heads),
        head_width=config("head_dim", head_width),
        dropout=config("attention_dropout", dropout) or 0.0,
        rotary=rotary,
        **fields,
    )


def write_attention(attention: Attention) -> dict[str, Any]:
    """The keys that `read_attention` reads, and the rotary settings."""
    return {
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.kv_heads,
        "head_dim": attention.head_width,
        "attention_dropout": attention.dropout,
    } | write_positions(attention.rotary)


def read_positions(config: Config, *, theta: float = 10_000.0, fraction: float | None = None, **fields: Any) -> Rotary:
    """Rotary positions. `fraction`: the rotated share of a head where the configuration is silent; None where nobody looks."""
    table = rope_parameters(config, theta=theta)
    if fraction is None:
        return read_rotary(table, **fields)
    outside = config("partial_rotary_factor", fraction)
    return read_rotary(table, fraction=float(table.pop("partial_rotary_factor", outside)), **fields)


def write_positions(rotary: Rotary | None) -> dict[str, Any]:
    """The settings of rotary positions; with `dynamic` scaling the trained length is `max_position_embeddings`."""
    assert rotary is not None, "the family has rotary positions"
    table = write_rotary(rotary)
    trained = table.pop("original_max_position_embeddings") if table["rope_type"] == "dynamic" else None
    if rotary.fraction != 1:
        table["partial_rotary_factor"] = rotary.fraction
    return {"rope_parameters": table} | ({} if trained is None else {"max_position_embeddings": trained})


def read_feedforward(
    config: Config, act: str, *, bias: tuple[feedforward.Projection, ...] = (), gated: bool = True, **fields: Any
) -> FeedForward:
    """A feed-forward network from the keys that families share. `act`: where the configuration is silent."""
    return FeedForward(
        width=config("intermediate_size"),
        activation=activation(config("hidden_act", act)),
        gated=gated,
        bias=bias,
        **fields,
    )


def read_decoder(
    config: Config, layers: Sequence[Block], *, head: Head | None = None, tied: bool = False, **around: Unpack[Around]
) -> Architecture:
    """A decoder of these layers. `tied`: whether the head is where the configuration is silent."""
    head = head or Head()
    return decoder_only(
        Embedding(vocab=config("vocab_size")),
        config("hidden_size"),
        layers,
        head=head.but(tied=config("tie_word_embeddings", tied)),
        initialisation=initialisation(config),
        **around,
    )


def repeated(config: Config, block: Block) -> list[Block]:
    """Every layer alike."""
    return [block] * config("num_hidden_layers")


def write_decoder(architecture: Architecture, eps: str = "rms_norm_eps") -> dict[str, Any]:
    """What stands around the layers; `eps` is the family's name of the norm's."""
    written = common(architecture)
    return {key: value for key, value in written.items() if key != "rms_norm_eps"} | {eps: written["rms_norm_eps"]}


def write_sublayers(architecture: Architecture, layer: str = "layer") -> tuple[Attention, FeedForward]:
    """Attention and feed-forward of a variant of layers."""
    return (
        get(architecture, f"decoder.{layer}.attention.sublayer"),
        get(architecture, f"decoder.{layer}.feedforward.sublayer"),
    )


def present(written: Mapping[str, Any]) -> dict[str, Any]:
    """Without the keys that hold nothing, for classes that take no null there."""
    return {key: value for key, value in written.items() if value is not None}
