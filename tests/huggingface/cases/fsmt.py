"""FSMT: two vocabularies, and one table for all. Its class leaves the causal mask out unless it is told to use no cache."""

from __future__ import annotations

from huggingface.case import VOCAB, Case
from huggingface.cases.bart import APART, BASE

SHARED = {key: value for key, value in BASE.items() if key != "vocab_size"} | {
    "src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB, "tie_word_embeddings": True, "langs": ["en", "ru"], "num_beams": 3,
}  # fmt: skip
CALLS = {"use_cache": False}

CASES = [
    Case("fsmt", SHARED, "Seq2SeqLM", "tied", calls=CALLS),
    Case("fsmt", SHARED | APART | {"src_vocab_size": 61}, "Seq2SeqLM", "two vocabularies", calls=CALLS),
]
