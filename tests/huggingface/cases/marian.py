"""Marian: one vocabulary, one for each side, and a head of its own."""

from __future__ import annotations

from huggingface.case import Case
from huggingface.cases.bart import APART, BASE, both

TWO = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 57}

CASES = [*both("marian"), Case("marian", BASE | APART | TWO | {"tie_word_embeddings": True}, "Seq2SeqLM", "two vocabularies")]
