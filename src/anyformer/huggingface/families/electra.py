"""ELECTRA and RemBERT: BERT with embeddings narrower than the stream."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.bert import (
    ATTENTION,
    EMBEDDINGS,
    FEEDFORWARD,
    IGNORED,
    POST_NORMS,
    common,
    encoder,
    encoder_names,
    head_names,
    masked_head,
    norm_of,
    sublayers,
)
from anyformer.huggingface.family import Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import activation
from anyformer.model import Architecture
from anyformer.parts import Head, InputProjection, LearnedPosition, Transform, post_norm

GENERATOR = ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head")
DISCRIMINATOR: Table = {
    "head.transform.dense": "discriminator_predictions.dense",
    "head": "discriminator_predictions.dense_prediction",
}
REMBERT = ("cls.predictions.dense", "cls.predictions.LayerNorm", "cls.predictions.decoder")


def narrow(config: Config, head: Head | None, width: int, *, always: bool) -> Architecture:
    """BERT on embeddings of `width` features, projected last; `always`: even where that is the stream's width."""
    norm, other = norm_of(config), width != config("hidden_size")
    return encoder(
        config,
        post_norm(norm, *sublayers(config), dropout=config("hidden_dropout_prob", 0.1)),
        head,
        embedding_width=width if other else None,
        position=LearnedPosition(length=config("max_position_embeddings", 512)),
        input_norm=norm,
        input_projection=InputProjection() if other or always else None,
    )


def write_narrow(architecture: Architecture, name: str, width: str = "embedding_size") -> dict[str, Any]:
    """`width`: their name of the embeddings' features."""
    length = get(architecture, "encoder.position.length")
    return common(architecture, name) | {"max_position_embeddings": length, width: architecture.table_width}


def read_electra(config: Config) -> Architecture:
    width = config("embedding_size", 128)
    if config.task != "ForPreTraining":
        head = masked_head(config, Transform(activation="gelu", norm=norm_of(config)))
        return narrow(config, head, width, always=False)
    config("tie_word_embeddings", None)
    acted = Transform(activation=activation(config("hidden_act", "gelu")), width=config("hidden_size"))
    return narrow(config, Head(outputs=1, bias=True, transform=acted), width, always=False)


def write_electra(architecture: Architecture) -> dict[str, Any]:
    discriminates = {"architectures": ["ElectraForPreTraining"]} if _discriminates(architecture) else {}
    return write_narrow(architecture, "Electra") | discriminates


def electra_names(architecture: Architecture) -> Names:
    outside: Table = {**EMBEDDINGS, "encoder.input_projection": "embeddings_project"}
    head = DISCRIMINATOR if _discriminates(architecture) else head_names(architecture, GENERATOR, f"{GENERATOR[2]}.bias")
    return encoder_names(architecture, "electra", outside, head, ATTENTION, FEEDFORWARD, POST_NORMS)


def _discriminates(architecture: Architecture) -> bool:
    """Whether the head says of each token if it was replaced."""
    return architecture.head is not None and architecture.head.outputs == 1


def read_rembert(config: Config) -> Architecture:
    config.assume(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config.expect("tie_word_embeddings", False, why="its head has a width of its own")
    acted = activation(config("hidden_act", "gelu"))
    transform = Transform(activation=acted, norm=norm_of(config), width=config("output_embedding_size", 1664))
    head = masked_head(config, transform, tied=False)
    return narrow(config, head, config("input_embedding_size", 256), always=True)


def write_rembert(architecture: Architecture) -> dict[str, Any]:
    own = {} if architecture.head is None else {"output_embedding_size": get(architecture, "head.transform.width")}
    return write_narrow(architecture, "RemBert", "input_embedding_size") | own


def rembert_names(architecture: Architecture) -> Names:
    outside: Table = {**EMBEDDINGS, "encoder.input_projection": "encoder.embedding_hidden_mapping_in"}
    head = head_names(architecture, REMBERT, f"{REMBERT[2]}.bias")
    return encoder_names(architecture, "rembert", outside, head, ATTENTION, FEEDFORWARD, POST_NORMS)


FAMILIES = (
    Family(
        "electra", read_electra, write_electra, electra_names, "ElectraForMaskedLM",
        inert=("summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout"), ignored=IGNORED,
    ),
    Family(
        "rembert", read_rembert, write_rembert, rembert_names, "RemBertForMaskedLM",
        inert=("classifier_dropout_prob",), ignored=IGNORED,
    ),
)  # fmt: skip
