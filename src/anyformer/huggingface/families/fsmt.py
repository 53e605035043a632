"""FSMT, fairseq's translation models of WMT 2019: the original Transformer with a vocabulary for each side."""

from __future__ import annotations

from typing import Any

from anyformer.describe import change, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.bart import AROUND, LAYERS, Line, written
from anyformer.huggingface.families.m2m_100 import after_padding, padding
from anyformer.huggingface.families.pegasus import TABLES
from anyformer.huggingface.rules import Names, Table
from anyformer.model import Architecture

FSMT = Line(after_padding, padding, bias=False, scaled=True, activation="relu")


def read(config: Config) -> Architecture:
    source, target = config("src_vocab_size"), config("tgt_vocab_size")
    tied = config("tie_word_embeddings", False)
    if tied:
        config.expect("src_vocab_size", target, why="a table that both sides share has one size")
    config.expect("vocab_size", target)
    found = FSMT.architecture(config, source, tied)
    return found if tied else found.but(decoder_embedding=change(found.embedding, "vocab", target))


def write(architecture: Architecture) -> dict[str, Any]:
    second = architecture.decoder_embedding
    return (
        written(architecture)
        | padding(architecture)
        | {
            "src_vocab_size": get(architecture, "embedding.vocab"),
            "tgt_vocab_size": get(architecture, "embedding.vocab") if second is None else second.vocab,
            "tie_word_embeddings": second is None,
        }
    )


def names(architecture: Architecture) -> Names:
    """One table for both sides is stored as the decoder's."""
    tables: Table = {"embedding": "model.decoder.embed_tokens"}
    if architecture.decoder_embedding is not None:
        tables = {"embedding": "model.encoder.embed_tokens", "decoder_embedding": "model.decoder.embed_tokens"}
    return Names({**tables, **AROUND, "head": "model.decoder.output_projection"}, LAYERS)


FAMILIES = (
    FSMT.family(
        "fsmt", "FSMTForConditionalGeneration", read=read, write=write, names=names, inert=("decoder", "langs"),
        ignored=(TABLES,),
    ),
)  # fmt: skip
