"""ESM: a pre-norm BERT for proteins, with rotary or learned positions, whose embeddings know the share of masked tokens."""

from __future__ import annotations

from typing import Any

from anyformer.describe import get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.bert import (
    ATTENTION,
    FEEDFORWARD,
    common,
    encoder_names,
    norm_of,
    sublayers,
)
from anyformer.huggingface.families.encoder_heads import encoder_head, head_names
from anyformer.huggingface.families.roberta import position
from anyformer.huggingface.family import old as Family
from anyformer.huggingface.rules import Names, Table
from anyformer.huggingface.spelling import initialisation
from anyformer.model import Architecture, encoder_only
from anyformer.parts import Embedding, MaskedTokens, Rotary, Transform, pre_norm

OUTSIDE: Table = {
    "embedding": "embeddings.word_embeddings",
    "encoder.position": "embeddings.position_embeddings",
    "encoder.input_norm": "embeddings.layer_norm",
    "encoder.final_norm": "encoder.emb_layer_norm_after",
}
NORMS: Table = {"attention.norm_before": "attention.LayerNorm", "feedforward.norm_before": "LayerNorm"}


def read(config: Config) -> Architecture:
    config.assume(max_position_embeddings=1026)
    config.expect("hidden_act", "gelu")
    config.expect("is_decoder", False)
    config.expect("is_folding_model", False, why="ESMFold is more than a transformer")
    config.expect("position_embedding_type", "absolute", "rotary")
    norm, theta = norm_of(config), config("rope_theta", 10_000.0)
    turned = config("position_embedding_type", "absolute") == "rotary"
    sublayer = sublayers(config, rotary=Rotary(theta=theta, rotate_in="fp32") if turned else None)
    masked = MaskedTokens(token=config("mask_token_id")) if config("token_dropout", False) else None
    return encoder_only(
        Embedding(vocab=config("vocab_size"), masked=masked),
        config("hidden_size"),
        [pre_norm(norm, *sublayer, dropout=config("hidden_dropout_prob", 0.1))] * config("num_hidden_layers"),
        position=None if turned else position(config),
        input_norm=norm if config("emb_layer_norm_before", None) else None,
        final_norm=norm,
        head=encoder_head(config, Transform(activation="gelu", norm=norm)),
        initialisation=initialisation(config),
    )


def write(architecture: Architecture) -> dict[str, Any]:
    layers, masked = architecture.output_stack, get(architecture, "embedding.masked")
    rotary = get(architecture, "encoder.layer.attention.rotary")
    written = common(architecture, "Esm", "encoder.final_norm") | {
        "hidden_dropout_prob": get(architecture, "encoder.layer.attention.dropout"),
        "emb_layer_norm_before": layers.input_norm is not None,
        "token_dropout": masked is not None,
        "mask_token_id": masked.token if masked else None,
    }
    for name in ("type_vocab_size", "hidden_act"):
        del written[name]
    if rotary is not None:
        return written | {"position_embedding_type": "rotary", "rope_theta": rotary.theta, "pad_token_id": 1}
    length, offset = (get(architecture, f"encoder.position.{field}") for field in ("length", "offset"))
    return written | {"max_position_embeddings": length + offset, "pad_token_id": offset - 1}


def names(architecture: Architecture) -> Names:
    head = head_names(architecture, ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"), "lm_head.bias")
    if "head.bias" in head:
        head = {**head, "head.bias": "lm_head.bias"}
    return encoder_names(architecture, "esm", OUTSIDE, head, ATTENTION, FEEDFORWARD, NORMS)


FAMILIES = (
    Family(
        "esm", read, write, names, "EsmForMaskedLM", inert=("esmfold_config", "mask_token_id", "vocab_list"),
        ignored=(
            r".*position_ids", r".*inv_freq", r"(.*\.)?contact_head\..*", r"(.*\.)?pooler\..*", r"lm_head\.decoder\.weight",
            r"(.*\.)?embeddings\.position_embeddings\.weight",
        ),
    ),
)  # fmt: skip
