"""Marian: the original Transformer's blocks with BART's names, sinusoids in two halves, one or two vocabularies."""

from __future__ import annotations

from anyformer.describe import change
from anyformer.huggingface.config import Config
from anyformer.huggingface.target import Target
from anyformer.huggingface.words.seq2seq import SINUSOIDS, BartVariant, halves
from anyformer.model import Architecture

MARIAN = BartVariant(halves, headless="MarianModel")


def read(config: Config) -> Architecture:
    # Marian's padding is the last token, which is also the start token of a target.
    config.put(pad_token_id=_last, decoder_start_token_id=_last)
    second = config("share_encoder_decoder_embeddings", True, lambda target: target.architecture.decoder_embedding is None)
    tied = config("tie_word_embeddings", True)
    target = config("decoder_vocab_size", None, None if second else "decoder_embedding.vocab") or config("vocab_size")
    made = MARIAN.architecture(config, config("vocab_size"), tied)
    if second:
        config.expect("decoder_vocab_size", config("vocab_size"), None, why="one table for both sides has one size")
        return made
    # The head is tied to the decoder's own table, if at all.
    return made.but(decoder_embedding=change(made.embedding, "vocab", target))


def _last(target: Target) -> int:
    return min(int(target("embedding.vocab")), target.architecture.outputs) - 1


FAMILIES = (MARIAN.family("marian", "MarianMTModel", read=read, fixed=SINUSOIDS),)
