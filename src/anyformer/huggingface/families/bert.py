"""BERT and its kin: encoders with learned positions, types of segments and a head of two layers; names that many took over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.errors import HuggingFaceError
from anyformer.huggingface.families.encoder_heads import encoder_head, head_names, write_head
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table, under
from anyformer.huggingface.spelling import activation, initialisation, write_activation
from anyformer.model import Architecture, encoder_only
from anyformer.parts import (
    Attention,
    Bidirectional,
    Embedding,
    FeedForward,
    Head,
    LayerNorm,
    LearnedPosition,
    Transform,
    post_norm,
    pre_norm,
)
from anyformer.parts.block import Block
from anyformer.parts.heads import PROJECTIONS
from anyformer.parts.stack import Around

EMBEDDINGS: Table = {
    "embedding": "embeddings.word_embeddings",
    "embedding.types": "embeddings.token_type_embeddings.weight",
    "encoder.position": "embeddings.position_embeddings",
    "encoder.input_norm": "embeddings.LayerNorm",
}
ATTENTION: Table = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
}
FEEDFORWARD: Table = {"feedforward.up": "intermediate.dense", "feedforward.down": "output.dense"}
POST_NORMS: Table = {"step_0_norm_after": "attention.output.LayerNorm", "step_1_norm_after": "output.LayerNorm"}
LAYER = "encoder.layer.{i}."
IGNORED = (
    r".*position_ids", r"(.*\.)?pooler\..*", r"cls\.seq_relationship\..*", r"cls\.predictions\.(decoder\.(weight|bias)|bias)",
)  # fmt: skip
"""Buffers, what a model of features or of tokens does not compute, and the second copies of a tied matrix and its bias."""


def encoder_names(
    architecture: Architecture, base: str, outside: Table, head: Table, *layer: Table, path: str = LAYER
) -> Names:
    """Names of a model whose encoder is called `base` under a head, and has no name of its own without one."""
    prefix = f"{base}." if architecture.head else ""
    inside = {key: to for table in layer for key, to in table.items()}
    return Names({**under(prefix, outside), **head}, {"encoder": (prefix + path, inside)})


def encoder(
    config: Config, block: Block, head: Head | None, *, types: int = 2, embedding_width: int | None = None,
    **around: Unpack[Around],
) -> Architecture:  # fmt: skip
    """An encoder of equal blocks; `types` where the configuration does not say how many kinds of segments there are."""
    config.expect("is_decoder", False)
    config.expect("position_embedding_type", "absolute")
    around["dropout"] = config("hidden_dropout_prob", 0.1)
    segments = config("type_vocab_size", types)
    if types and not segments:
        raise HuggingFaceError(f"{config.where}: type_vocab_size = 0, but transformers looks one up for every token")
    return encoder_only(
        Embedding(vocab=config("vocab_size"), types=segments),
        config("hidden_size"),
        [block] * config("num_hidden_layers"),
        embedding_width=embedding_width,
        head=head,
        initialisation=initialisation(config),
        **around,
    )


def sublayers(config: Config, **fields: Any) -> tuple[Attention, FeedForward]:
    """Attention both ways and a feed-forward network, with every bias; `fields` are more of the attention's."""
    attention = Attention(
        heads=config("num_attention_heads"),
        bias=PROJECTIONS,
        mask=Bidirectional(),
        dropout=config("attention_probs_dropout_prob", 0.1),
        **fields,
    )
    return attention, FeedForward(
        width=config("intermediate_size"),
        activation=activation(config("hidden_act", "gelu")),
        gated=False,
        bias=("up", "down"),
    )


def norm_of(config: Config, eps: float = 1e-12) -> LayerNorm:
    return LayerNorm(eps=config("layer_norm_eps", eps))


def read(config: Config) -> Architecture:
    config.expect("use_task_id", False)
    norm = norm_of(config)
    transform = Transform(activation=activation(config("hidden_act", "gelu")), norm=norm)
    return encoder(
        config,
        post_norm(norm, *sublayers(config), dropout=config("hidden_dropout_prob", 0.1)),
        encoder_head(config, transform),
        position=LearnedPosition(length=config("max_position_embeddings", 512)),
        input_norm=norm,
    )


def read_megatron(config: Config) -> Architecture:
    norm = norm_of(config)
    transform = Transform(activation=activation(config("hidden_act", "gelu")), norm=norm)
    return encoder(
        config,
        pre_norm(norm, *sublayers(config), dropout=config("hidden_dropout_prob", 0.1)),
        encoder_head(config, transform),
        position=LearnedPosition(length=config("max_position_embeddings", 512)),
        final_norm=norm,
    )


def common(architecture: Architecture, name: str, norm: str = "encoder.input_norm") -> dict[str, Any]:
    """What every kin of BERT writes alike; `name`: their class without its task, `norm`: where a norm stands."""
    first = architecture.output_stack.layers[0]
    attention: Attention = get(architecture, f"encoder.{first}.attention.sublayer")
    feedforward: FeedForward = get(architecture, f"encoder.{first}.feedforward.sublayer")
    return write_head(architecture, name) | {
        "vocab_size": get(architecture, "embedding.vocab"),
        "type_vocab_size": get(architecture, "embedding.types"),
        "hidden_size": architecture.width,
        "num_hidden_layers": architecture.output_stack.depth,
        "num_attention_heads": attention.heads,
        "attention_probs_dropout_prob": attention.dropout,
        "intermediate_size": feedforward.width,
        "hidden_act": write_activation(feedforward.activation),
        "hidden_dropout_prob": get(architecture, "encoder.dropout"),
        "layer_norm_eps": get(architecture, f"{norm}.eps"),
    }


def writer(name: str, norm: str = "encoder.input_norm") -> Callable[[Architecture], dict[str, Any]]:
    """How a kin with positions counted from 0 is written."""
    return lambda architecture: (
        common(architecture, name, norm) | {"max_position_embeddings": get(architecture, "encoder.position.length")}
    )


def pooler_head(architecture: Architecture, base: str) -> Table:
    """Classes of a row are read off the pooler."""
    return head_names(architecture, pooled=(f"{base}.pooler.dense", "classifier"))


def names(base: str) -> Callable[[Architecture], Names]:
    return lambda architecture: encoder_names(
        architecture, base, EMBEDDINGS, pooler_head(architecture, base), ATTENTION, FEEDFORWARD, POST_NORMS
    )


def megatron_names(architecture: Architecture) -> Names:
    norms: Table = {"attention.norm_before": "attention.ln", "feedforward.norm_before": "ln"}
    outside: Table = {**EMBEDDINGS, "encoder.final_norm": "encoder.ln"}
    return encoder_names(architecture, "bert", outside, pooler_head(architecture, "bert"), ATTENTION, FEEDFORWARD, norms)


FAMILIES = (
    Family("bert", read, writer("Bert"), names("bert"), "BertForMaskedLM", ignored=IGNORED),
    Family(
        "ernie", read, writer("Ernie"), names("ernie"), "ErnieForMaskedLM", inert=("task_type_vocab_size",), ignored=IGNORED
    ),
    Family(
        "megatron-bert", read_megatron, writer("MegatronBert", "encoder.final_norm"), megatron_names, "MegatronBertForMaskedLM",
        ignored=IGNORED,
    ),
)  # fmt: skip
