"""Marian: the original Transformer's blocks with BART's names, sinusoids in two halves, and perhaps two vocabularies."""

from __future__ import annotations

from typing import Any

from anyformer.describe import change, get
from anyformer.huggingface.config import Config
from anyformer.huggingface.families.bart import Line, longest
from anyformer.huggingface.families.pegasus import TABLES, halves
from anyformer.model import Architecture

MARIAN = Line(halves, longest)


def read(config: Config) -> Architecture:
    made = MARIAN.read(config)
    target = config("decoder_vocab_size", None) or config("vocab_size")
    if config("share_encoder_decoder_embeddings", True):
        config.expect("decoder_vocab_size", config("vocab_size"), None, why="one table for both sides has one size")
        return made
    # The head is tied to the decoder's own table, if at all.
    return made.but(decoder_embedding=change(made.embedding, "vocab", target))


def write(architecture: Architecture) -> dict[str, Any]:
    """Padding is by Marian's custom the last token, and what a target begins with."""
    second = architecture.decoder_embedding
    last = min(get(architecture, "embedding.vocab"), architecture.outputs) - 1
    written = MARIAN.write(architecture) | {"pad_token_id": last, "decoder_start_token_id": last}
    if second is None:
        return written
    return written | {
        "share_encoder_decoder_embeddings": False,
        "decoder_vocab_size": second.vocab,
        "tie_word_embeddings": get(architecture, "head.tied"),
    }


FAMILIES = (MARIAN.family("marian", "MarianMTModel", read=read, write=write, ignored=(TABLES,)),)
