"""ELECTRA, RemBERT and RoFormer: BERT with embeddings narrower than the stream; the last turns queries and keys by position."""

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
    norm_of,
    sublayers,
)
from anyformer.huggingface.families.encoder_heads import encoder_head, head_names
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import activation, longest
from anyformer.model import Architecture
from anyformer.parts import Head, InputProjection, LearnedPosition, Rotary, Transform, post_norm

GENERATOR = ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head")
DISCRIMINATOR: Table = {
    "head.transform.dense": "discriminator_predictions.dense",
    "head": "discriminator_predictions.dense_prediction",
}
REMBERT = ("cls.predictions.dense", "cls.predictions.LayerNorm", "cls.predictions.decoder")


def narrow(config: Config, head: Head | None, width: int, *, always: bool, rotary: Rotary | None = None) -> Architecture:
    """BERT on embeddings of `width` features, projected last; `always`: even where that is the stream's width."""
    norm, other = norm_of(config), width != config("hidden_size")
    length = config("max_position_embeddings", 512)
    return encoder(
        config,
        post_norm(norm, *sublayers(config, rotary=rotary), dropout=config("hidden_dropout_prob", 0.1)),
        head,
        embedding_width=width if other else None,
        position=None if rotary else LearnedPosition(length=length),
        input_norm=norm,
        input_projection=InputProjection() if other or always else None,
    )


def write_narrow(architecture: Architecture, name: str, width: str = "embedding_size") -> dict[str, Any]:
    """`width`: their name of the embeddings' features."""
    length = get(architecture, "encoder.position.length")
    return common(architecture, name) | {"max_position_embeddings": length, width: architecture.table_width}


def read_electra(config: Config) -> Architecture:
    width = config("embedding_size", 128)
    acted = Transform(activation=activation(config("hidden_act", "gelu")), width=config("hidden_size"))
    head = encoder_head(
        config,
        Transform(activation="gelu", norm=norm_of(config)),
        pooled=acted.but(activation="gelu"),
        ForPreTraining=Head(outputs=1, bias=True, transform=acted),
    )
    return narrow(config, head, width, always=False)


def write_electra(architecture: Architecture) -> dict[str, Any]:
    discriminates = {"architectures": ["ElectraForPreTraining"]} if _discriminates(architecture) else {}
    return write_narrow(architecture, "Electra") | discriminates


def electra_names(architecture: Architecture) -> Names:
    outside: Table = {**EMBEDDINGS, "encoder.input_projection": "embeddings_project"}
    head = DISCRIMINATOR if _discriminates(architecture) else head_names(architecture, GENERATOR, f"{GENERATOR[2]}.bias")
    return encoder_names(architecture, "electra", outside, head, ATTENTION, FEEDFORWARD, POST_NORMS)


def _discriminates(architecture: Architecture) -> bool:
    """Whether the head says of each token if it was replaced."""
    head = architecture.head
    return head is not None and head.outputs == 1 and head.pool is None and head.transform is not None


def read_rembert(config: Config) -> Architecture:
    config.assume(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config.expect("tie_word_embeddings", False, why="its head has a width of its own")
    acted = activation(config("hidden_act", "gelu"))
    transform = Transform(activation=acted, norm=norm_of(config), width=config("output_embedding_size", 1664))
    pooled = Transform(activation="tanh", width=config("hidden_size"))
    head = encoder_head(config, transform, tied=False, pooled=pooled)
    return narrow(config, head, config("input_embedding_size", 256), always=True)


def write_rembert(architecture: Architecture) -> dict[str, Any]:
    masked = architecture.head is not None and architecture.head.outputs is None
    own = {"output_embedding_size": get(architecture, "head.transform.width")} if masked else {}
    return write_narrow(architecture, "RemBert", "input_embedding_size") | own


def rembert_names(architecture: Architecture) -> Names:
    outside: Table = {**EMBEDDINGS, "encoder.input_projection": "encoder.embedding_hidden_mapping_in"}
    head = head_names(architecture, REMBERT, f"{REMBERT[2]}.bias", ("rembert.pooler.dense", "classifier"))
    return encoder_names(architecture, "rembert", outside, head, ATTENTION, FEEDFORWARD, POST_NORMS)


def read_roformer(config: Config) -> Architecture:
    config.expect("rotary_value", False, why="values are not rotated here")
    acted, width = activation(config("hidden_act", "gelu")), config("hidden_size")
    pooled = Transform(activation=acted, width=width)
    head = encoder_head(config, Transform(activation=acted, norm=norm_of(config)), pooled=pooled)
    return narrow(config, head, config("embedding_size", None) or width, always=False, rotary=Rotary(pairing="adjacent"))


def write_roformer(architecture: Architecture) -> dict[str, Any]:
    return common(architecture, "RoFormer") | {
        "embedding_size": architecture.table_width,
        "max_position_embeddings": longest(architecture, 1536),
    }


def roformer_names(architecture: Architecture) -> Names:
    outside: Table = {**EMBEDDINGS, "encoder.input_projection": "embeddings_project"}
    return encoder_names(architecture, "roformer", outside, head_names(architecture), ATTENTION, FEEDFORWARD, POST_NORMS)


FAMILIES = (
    Family(
        "electra", read_electra, write_electra, electra_names, "ElectraForMaskedLM",
        inert=("summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout"), ignored=IGNORED,
    ),
    Family(
        "rembert", read_rembert, write_rembert, rembert_names, "RemBertForMaskedLM",
        inert=("classifier_dropout_prob",), ignored=IGNORED,
    ),
    Family(
        "roformer", read_roformer, write_roformer, roformer_names, "RoFormerForMaskedLM",
        ignored=(*IGNORED, r"(.*\.)?encoder\.embed_positions\.weight"),
    ),
)  # fmt: skip
