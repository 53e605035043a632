"""ELECTRA, RemBERT and RoFormer: BERT with embeddings narrower than D; RoFormer with rotary positions."""

from __future__ import annotations

from anyformer.huggingface import words
from anyformer.huggingface.config import Config
from anyformer.huggingface.family import Family
from anyformer.huggingface.fixed_tables import ROTARY_WAVES
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.words.bert_line import (
    ATTENTION,
    EMBEDDINGS,
    FEEDFORWARD,
    IGNORED,
    POST_NORMS,
    bert_head,
    encoder_names,
    narrow_encoder,
    table_width,
)
from anyformer.huggingface.words.encoder_heads import head_names
from anyformer.huggingface.words.rounded import tell_of_rounding
from anyformer.model import Architecture
from anyformer.parts import Head, Rotary, Transform


def read_electra(config: Config) -> Architecture:
    acted = Transform(activation=words.activation(config, default="gelu"), width=config("hidden_size"))
    replaced = Head(outputs=1, bias=True, transform=acted)
    norm, pooled = words.layer_norm(config, 1e-12), acted.but(activation="gelu")
    head = bert_head(config, "Electra", norm, "gelu", pooled=pooled, ForPreTraining=replaced)
    return narrow_encoder(config, head, table_width(config, "embedding_size", 128), always=False)


def read_rembert(config: Config) -> Architecture:
    config.assume(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config.expect("tie_word_embeddings", False, why="its head has a width of its own")
    norm, width = words.layer_norm(config, 1e-12), config("output_embedding_size", 1664, "head.transform.width")
    pooled = Transform(activation="tanh", width=config("hidden_size"))
    head = bert_head(config, "RemBert", norm, tied=False, pooled=pooled)
    if head is not None and head.outputs is None:
        head = head.but(transform=Transform(activation=words.activation(config, default="gelu"), norm=norm, width=width))
    return narrow_encoder(config, head, table_width(config, "input_embedding_size", 256), always=True)


def read_roformer(config: Config) -> Architecture:
    config.expect("rotary_value", False, why="values are not rotated here")
    tell_of_rounding(config, "the table of positions")
    config("max_position_embeddings", None, lambda target: target.stack.max_length or 1536)
    pooled = Transform(activation=words.activation(config, default="gelu"), width=config("hidden_size"))
    head = bert_head(config, "RoFormer", words.layer_norm(config, 1e-12), pooled=pooled)
    width = table_width(config, "embedding_size", None)
    return narrow_encoder(config, head, width, always=False, rotary=Rotary(pairing="adjacent"))


def _names(architecture: Architecture, base: str, projection: str, head: Table) -> Names:
    outside: Table = {**EMBEDDINGS, "encoder.input_projection": projection}
    return encoder_names(architecture, base, outside, head, ATTENTION, FEEDFORWARD, POST_NORMS)


def electra_names(architecture: Architecture) -> Names:
    head = architecture.head
    if head is not None and head.outputs == 1 and head.pool is None and head.transform is not None:
        return _names(architecture, "electra", "embeddings_project", _DISCRIMINATOR)
    modules = ("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head")
    return _names(architecture, "electra", "embeddings_project", head_names(architecture, modules, "generator_lm_head.bias"))


def rembert_names(architecture: Architecture) -> Names:
    modules = ("cls.predictions.dense", "cls.predictions.LayerNorm", "cls.predictions.decoder")
    head = head_names(architecture, modules, f"{modules[2]}.bias", ("rembert.pooler.dense", "classifier"))
    return _names(architecture, "rembert", "encoder.embedding_hidden_mapping_in", head)


def roformer_names(architecture: Architecture) -> Names:
    return _names(architecture, "roformer", "embeddings_project", head_names(architecture))


_DISCRIMINATOR: Table = {
    "head.transform.dense": "discriminator_predictions.dense",
    "head": "discriminator_predictions.dense_prediction",
}
"""Names of the head that says of each token whether it was replaced."""
_SUMMARY = ("summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout")
FAMILIES = (
    Family("electra", read_electra, electra_names, "ElectraForMaskedLM", inert=_SUMMARY, ignored=IGNORED),
    Family("rembert", read_rembert, rembert_names, "RemBertForMaskedLM", inert=("classifier_dropout_prob",), ignored=IGNORED),
    Family(
        "roformer",
        read_roformer,
        roformer_names,
        "RoFormerForMaskedLM",
        ignored=IGNORED,
        fixed={r"(.*\.)?encoder\.embed_positions\.weight": ROTARY_WAVES},
    ),
)
