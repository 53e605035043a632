"""Texts that follow another one: their tokens, and where they begin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anyformer.text.learnt import Learnt, shared
from anyformer.text.tokenizers import TokenArray, Tokenizer


def continued(tokenizer: Tokenizer, prompt: TokenArray, *whole: TokenArray) -> list[Learnt]:
    """The tokens of texts that begin with a prompt, which end with the end of text; what follows the prompt is learnt.

    It begins where the tokens of the prompt alone and of every text first differ, since tokens may cross the seam.
    """
    alone = _framed(tokenizer, prompt.tolist())
    texts = [_framed(tokenizer, [*each.tolist(), tokenizer.end]) for each in whole]
    begin = min(shared(alone, text) for text in texts)
    return [Learnt(text, np.arange(len(text)) >= begin) for text in texts]


def unended(tokenizer: Tokenizer, text: str) -> str:
    """A text without the word for the end of text that it may end with, since `continued` adds that token."""
    word = next((name for name, number in tokenizer.special_tokens.items() if number == tokenizer.end_of_text), "")
    return text.removesuffix(word)


def _framed(tokenizer: Tokenizer, tokens: Sequence[int]) -> TokenArray:
    return np.array(tokenizer.framed(tokens).tokens, dtype=np.uint32)
