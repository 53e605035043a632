"""Windows of text to make examples of, and small models to train on them."""

from __future__ import annotations

from functools import cache

import numpy as np

from anyformer.data import IGNORED, Batch, Bytes
from anyformer.data.vocabulary import make_tokenizer
from anyformer.describe import change
from anyformer.model import Architecture
from anyformer.objectives import Setting
from anyformer.objectives.objective import Objective
from anyformer.objectives.text import TextObjective
from anyformer.parts import Causal, Prefix
from anyformer.resizing.tiny import tiny
from anyformer.resolving import architecture
from anyformer.text import Specials, Tokenizer

TEXT = "The quick brown fox jumps over the lazy dog. It was a sunny day! Why not? Because I say so.\nNobody asked the dog. "
WORDS = [ord(letter) for letter in TEXT * 8]


@cache
def tokenizer(special: Specials) -> Tokenizer:
    """Bytes and these special tokens."""
    return make_tokenizer(Bytes(), lambda: [TEXT], lambda: [TEXT], special=special)


def setting(objective: Objective, length: int, seed: int = 0) -> Setting:
    return Setting(tokenizer(objective.special(length)), length, seed)


def batch(lengths: list[int], window: int, rows: list[int] | None = None) -> Batch:
    """Rows of text, of these lengths, padded to `window` tokens; each begins elsewhere."""
    numbers = list(range(len(lengths))) if rows is None else rows
    tokens = np.zeros((len(lengths), window), dtype=np.int64)
    targets = np.full_like(tokens, IGNORED)
    for row, (number, length) in enumerate(zip(numbers, lengths, strict=True)):
        start = 7 * number % len(TEXT)
        text = WORDS[start : start + length + 1]
        tokens[row, :length], targets[row, :length] = text[:-1], text[1:]
    padding = np.arange(window) >= np.array(lengths)[:, None]
    return Batch(tokens, targets, np.array(numbers), padding=padding if padding.any() else None)


def whole(objective: TextObjective, length: int, rows: list[int]) -> Batch:
    """Rows of text without padding, as long as the objective takes them."""
    window = objective.window(length)
    return batch([window] * len(rows), window, rows)


@cache
def small(name: str) -> Architecture:
    """The tiny variant of a catalogue entry; `prefix`: a decoder that reads a prefix both ways."""
    if name == "prefix":
        return change(tiny(architecture("llama-12m")), "decoder.layer.attention.mask", Causal() | Prefix())
    return tiny(architecture(name))
