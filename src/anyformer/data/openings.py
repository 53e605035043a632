"""The beginnings of held-out texts, as prompts."""

from __future__ import annotations

from anyformer.data.corpus import Split
from anyformer.text.tokenizers import Tokenizer


def opening(split: Split, tokenizer: Tokenizer, number: int = 0, words: int = 4) -> str:
    """The first words of document `number` (modulo their count).

    A single document may begin in the middle of a line: then the first words of a later line.
    """
    starts = split.starts.tolist()
    start = starts[number % len(starts)]
    tokens = split.tokens[start : start + 512].tolist()
    before = len(tokenizer.frame.single.before)
    if tuple(tokens[:before]) == tokenizer.frame.single.before:
        tokens = tokens[before:]
    if tokenizer.end_of_text in tokens:
        tokens = tokens[: tokens.index(tokenizer.end_of_text)]
    lines = [line.strip() for line in tokenizer.decode(tokens).strip("\ufffd").splitlines() if line.strip()]
    whole = lines if len(starts) > 1 else lines[1 + number : -1] or lines
    return " ".join(whole[0].split()[:words]) if whole else ""
