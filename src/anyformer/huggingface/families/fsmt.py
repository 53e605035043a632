"""FSMT, fairseq's translation models of WMT 2019: the original Transformer with a vocabulary per side."""

from __future__ import annotations

from anyformer.describe import change
from anyformer.huggingface.config import Config
from anyformer.huggingface.rules import Names
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.rounded import tell_of_rounding
from anyformer.huggingface.words.seq2seq import AROUND, LAYERS, SINUSOIDS, BartVariant, after_padding, tables
from anyformer.model import Architecture

FSMT = BartVariant(after_padding, bias=False, scaled=True, activation="relu")


def read(config: Config) -> Architecture:
    tell_of_rounding(config, "the table of positions")
    source, target = config("src_vocab_size", at="embedding.vocab"), config("tgt_vocab_size", at=_target)
    tied = config("tie_word_embeddings", False, lambda target: target.architecture.decoder_embedding is None)
    if tied:
        config.expect("src_vocab_size", target, why="the table that both sides share is as long as tgt_vocab_size says")
    config.expect("vocab_size", target)
    made = FSMT.architecture(config, source, tied)
    return made if tied else made.but(decoder_embedding=change(made.embedding, "vocab", target))


def _target(target: Target) -> int:
    return int(target.get("decoder_embedding.vocab") or target("embedding.vocab"))


def names(architecture: Architecture) -> Names:
    """Names of the weights; one table for both sides is stored as the decoder's."""
    inside = tables(architecture, "model.decoder.embed_tokens")
    return Names({**inside, **AROUND, "head": "model.decoder.output_projection"}, LAYERS)


FAMILIES = (
    FSMT.family("fsmt", "FSMTForConditionalGeneration", read=read, names=names, inert=("decoder", "langs"), fixed=SINUSOIDS),
)
