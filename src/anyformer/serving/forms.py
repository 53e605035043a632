"""What came of texts, in the forms of OpenAI's interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from anyformer.generation.chances import Chances, Token
from anyformer.generation.rows import Reason
from anyformer.text import Tokenizer

REASONS: Mapping[Reason | None, str | None] = {None: None, "end": "stop", "stop": "stop", "length": "length", "time": "abort"}


@dataclass(frozen=True)
class TokenNames:
    """How tokens are called beside their log-probabilities: by what they spell, or by number."""

    tokenizer: Tokenizer | None
    numbered: bool

    def name(self, token: int) -> str:
        if self.numbered or self.tokenizer is None:
            return f"token_id:{token}"
        return self.tokenizer.decode([token], special=True, clean=False)

    def chat_logprobs(self, tokens: Sequence[Token]) -> dict[str, Any]:
        """Those of tokens, in the form of chats."""
        return {"content": [self._chat(token.number, token.chances) for token in tokens if token.chances], "refusal": None}

    def _chat(self, token: int, told: Chances) -> dict[str, Any]:
        top = [self._named(other, logprob) for other, logprob in told.likeliest]
        return {**self._named(token, told.logprob), "top_logprobs": top}

    def _named(self, token: int, logprob: float) -> dict[str, Any]:
        name = self.name(token)
        whole = UNFINISHED not in name  # a part of a character spells no text
        return {"token": name, "logprob": finite(logprob), "bytes": list(name.encode()) if whole else None}

    def completion_logprobs(self, tokens: Sequence[tuple[int, Chances | None]], offset: int = 0) -> dict[str, Any]:
        """Those of tokens, in the form of completions; `offset`: characters before the first. The first token of a prompt has
        none."""
        names = [self.name(token) for token, _ in tokens]
        return {
            "tokens": names,
            "token_logprobs": [None if told is None else finite(told.logprob) for _, told in tokens],
            "top_logprobs": [None if told is None else self._table(told) for _, told in tokens],
            "text_offset": list(accumulate(map(len, names[:-1]), initial=offset)) if names else [],
        }

    def _table(self, told: Chances) -> dict[str, float]:
        """The likeliest by name; of tokens that are called the same the likeliest."""
        return {self.name(token): finite(logprob) for token, logprob in reversed(told.likeliest)}


UNFINISHED = "\ufffd"
LEAST = -9999.0
"""Stands for the log-probability of what is impossible, since JSON has no infinity."""


def finite(logprob: float) -> float:
    return max(logprob, LEAST)


def usage(read: int, made: int) -> dict[str, int]:
    """How many tokens were read and made."""
    return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}
