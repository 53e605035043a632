"""What tokens spell, for servers that name tokens by their text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from anyformer.loading import beside
from anyformer.text import Tokenizer


def pieces_of(path: str | Path) -> dict[str, int] | None:
    """The tokens of the model at `path` by what they spell, those that several spell left out; None without a tokenizer."""
    tokenizer = Tokenizer.found(beside(path))
    if tokenizer is None:
        return None
    spelled = [tokenizer.decode([number], special=True, clean=False) for number in range(tokenizer.vocab_size)]
    counts = Counter(spelled)
    return {piece: number for number, piece in enumerate(spelled) if counts[piece] == 1}
