"""BERT's line: encoders with learned positions and types of segments, and names of their weights."""

from __future__ import annotations

import re
from typing import Any

from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.rules import Names, Table, under
from anyformer.huggingface.words.activations import activation
from anyformer.huggingface.words.encoder_heads import encoder_head
from anyformer.huggingface.words.heads import ALL, QKV
from anyformer.huggingface.words.layers import repeated
from anyformer.huggingface.words.models import initialisation, stacked
from anyformer.huggingface.words.names import joined
from anyformer.huggingface.words.networks import plain
from anyformer.huggingface.words.norms import Norm, layer_norm
from anyformer.model import Architecture
from anyformer.parts import (
    Attention,
    Bidirectional,
    Block,
    Embedding,
    FeedForward,
    Head,
    InputProjection,
    LearnedPosition,
    Rotary,
    Transform,
    post_norm,
)

EMBEDDINGS: Table = {
    "embedding": "embeddings.word_embeddings",
    "embedding.types": "embeddings.token_type_embeddings.weight",
    "encoder.position": "embeddings.position_embeddings",
    "encoder.input_norm": "embeddings.LayerNorm",
}
ATTENTION: Table = {
    **{f"attention.{side}": f"attention.self.{side}" for side in QKV},
    "attention.output": "attention.output.dense",
}
FEEDFORWARD: Table = {"feedforward.up": "intermediate.dense", "feedforward.down": "output.dense"}
POST_NORMS: Table = {"step_0_norm_after": "attention.output.LayerNorm", "step_1_norm_after": "output.LayerNorm"}
LAYER = "encoder.layer.{i}."
IGNORED = (
    r".*position_ids", r"(.*\.)?pooler\..*", r"cls\.seq_relationship\..*", r"cls\.predictions\.(decoder\.(weight|bias)|bias)",
)  # fmt: skip
"""Buffers, weights of the pooler and of next-sentence prediction, and second copies of a tied matrix and its bias."""


def encoder_names(
    architecture: Architecture, base: str, outside: Table, head: Table, *layer: Table, path: str = LAYER
) -> Names:
    """Names of a model whose one stack has the prefix `base` under a head, and none without one; `outside`: of an encoder."""
    prefix, (stack,) = f"{base}." if architecture.head else "", architecture.stacks
    several = {ours: theirs for ours, theirs in outside.items() if not isinstance(ours, str)}
    around = {re.sub(r"^encoder\b", stack, ours): theirs for ours, theirs in outside.items() if isinstance(ours, str)} | several
    return Names({**under(prefix, around), **head}, {stack: (prefix + path, joined(*layer))})


def bert_sublayers(config: Config, **fields: Any) -> tuple[Attention, FeedForward]:
    """Attention, by default bidirectional, and a feed-forward network, with every bias; `fields`: more of the attention."""
    heads, rate = config("num_attention_heads"), config("attention_probs_dropout_prob", 0.1)
    attention = Attention(heads=heads, mask=Bidirectional()).but(**{"bias": ALL, "dropout": rate, **fields})
    return attention, plain(config)


def bert_head(config: Config, name: str, norm: Norm, act: str | None = None, **more: Any) -> Head | None:
    """The head of the configuration's class; `act`: activation before the matrix of tokens, if not that of the layers."""
    return encoder_head(config, name, Transform(activation=act or activation(config, default="gelu"), norm=norm), **more)


def encoder(
    config: Config,
    block: Block,
    head: Head | None,
    *,
    types: int | None = 2,
    embedding_width: int | None = None,
    side: str = "encoder",
    **around: Any,
) -> Architecture:
    """An encoder of equal blocks; with `side` = "decoder" a decoder.

    `types`: kinds of segments where the key is absent, None for a class without segments.
    """
    config.expect_all(is_decoder=side == "decoder", position_embedding_type="absolute")
    config("max_position_embeddings", None)
    segments = 0 if types is None else config("type_vocab_size", types)
    if types and not segments:
        raise HuggingFaceError(f"{config.where}: type_vocab_size = 0, but transformers looks one up for every token")
    around = {"dropout": config("hidden_dropout_prob", 0.1), **around}
    stacks: dict[str, Any] = {side: stacked(repeated(config, block), **around)}
    return Architecture(
        width=config("hidden_size"),
        embedding=Embedding(vocab=config("vocab_size"), types=segments),
        embedding_width=embedding_width,
        head=head,
        initialisation=initialisation(config),
        **stacks,
    )


def narrow_encoder(
    config: Config,
    head: Head | None,
    width: int,
    *,
    always: bool,
    rotary: Rotary | None = None,
    sublayers: tuple[Attention, FeedForward] | None = None,
) -> Architecture:
    """BERT on embeddings of `width` features, projected to D; `always`: even where `width` is D; `sublayers`: if not BERT's."""
    norm, other = layer_norm(config, 1e-12), width != config("hidden_size")
    sublayers = sublayers or bert_sublayers(config, rotary=rotary)
    block = post_norm(norm, *sublayers, dropout=config("hidden_dropout_prob", 0.1))
    return encoder(
        config,
        block,
        head,
        embedding_width=width if other else None,
        position=None if rotary else learned_position(config),
        input_norm=norm,
        input_projection=InputProjection() if other or always else None,
    )


def table_width(config: Config, key: str, default: int | None) -> int:
    """Features of the embeddings; D where the key is absent and its default None."""
    width: int | None = config(key, default, lambda target: target.architecture.table_width)
    return config("hidden_size") if width is None else width


def learned_position(config: Config) -> LearnedPosition:
    """A learned row per position."""
    return LearnedPosition(length=config("max_position_embeddings", 512))


def position_after_padding(config: Config) -> LearnedPosition:
    """Learned positions that begin after the id of padding, so that the rows before stay unused (RoBERTa)."""
    offset = config("pad_token_id", 1, lambda target: target("stack.position.offset") - 1) + 1
    key, place = "max_position_embeddings", "stack.position"
    rows = config(key, 512, lambda target: target.number(f"{place}.length") + target(f"{place}.offset"))
    return LearnedPosition(length=rows - offset, offset=offset)
