"""Tokenizers in GGUF files: what llama.cpp is told of one, chosen by what it does to text."""

from anyformer.huggingface.gguf.vocabulary.choosing import keys, strings, vocabulary_of
from anyformer.huggingface.gguf.vocabulary.definition import definition, knows
from anyformer.huggingface.gguf.vocabulary.ends import special_ids, stops
from anyformer.huggingface.gguf.vocabulary.fitting import fitted
from anyformer.huggingface.gguf.vocabulary.value import GgufVocabulary, TokenType

__all__ = [
    "GgufVocabulary",
    "TokenType",
    "definition",
    "fitted",
    "keys",
    "knows",
    "special_ids",
    "stops",
    "strings",
    "vocabulary_of",
]
