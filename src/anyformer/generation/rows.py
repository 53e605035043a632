"""The texts of several rows as their tokens come, and where each of them ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from anyformer.generation.chances import Chances, Token
from anyformer.text import StreamDecoder, Tokenizer

Reason = Literal["end", "stop", "length", "time"]
"""Why a text ends: one of the model's ends, a stop string, as many tokens as were asked for, or no more time."""


@dataclass(frozen=True)
class Continuation:
    """A text that goes on with a prompt.

    `prompt`: the number of the prompt; `text`: None without a tokenizer; `tokens`: with the end, if it gave one; `chances`: of
    each of them, where they were asked for; `score`: of beams, the log-probability over length^penalty.
    """

    prompt: int
    text: str | None
    tokens: tuple[int, ...]
    reason: Reason
    chances: tuple[Chances, ...] = ()
    score: float | None = None


class Told:
    """The rows that have ended, each of which `done` is told once."""

    def __init__(self, count: int, done: Callable[[int], None] | None) -> None:
        self._count, self._done, self._rows = count, done, set[int]()

    def __contains__(self, row: object) -> bool:
        return row in self._rows

    def add(self, row: int) -> None:
        if row not in self._rows:
            self._rows.add(row)
            if self._done is not None:
                self._done(row)

    @property
    def all(self) -> bool:
        return len(self._rows) == self._count


class TextRow:
    """The text of one row; an ending that may be the beginning of a stop string is held back.

    Special tokens can be part of a stop string, and are shown with `special`, or if they are among `shown`. `prompt`: the
    tokens before it.
    """

    def __init__(
        self,
        tokenizer: Tokenizer | None,
        stop: Sequence[str],
        ends: Sequence[int],
        *,
        most: int,
        prompt: Sequence[int] = (),
        special: bool = False,
        shown: Collection[int] = (),
    ) -> None:
        self._decoder = None if tokenizer is None else StreamDecoder(tokenizer, before=prompt, special=special)
        # Their texts are needed where a stop string may have them.
        named = {} if tokenizer is None or special or not (stop or shown) else tokenizer.special_tokens
        self._shown = frozenset(shown)
        self._named = {number: word for word, number in named.items()}
        self._stop, self._ends, self._most = tuple(stop), frozenset(ends), most
        self._held = ""
        self._hidden = list[tuple[int, int]]()
        """From where to where `_held` has special tokens, which are not shown."""
        self.tokens, self.chances = list[int](), list[Chances]()
        self.reason: Reason | None = None
        self.score: float | None = None

    @property
    def ended(self) -> bool:
        """Whether no more tokens count."""
        return self.reason is not None

    def push(self, token: Token) -> str:
        """The text that a token makes certain."""
        if self.ended:
            return ""
        self.tokens.append(token.number)
        if token.chances is not None:
            self.chances.append(token.chances)
        at_end = token.number in self._ends
        piece = self._said(token.number)
        if not self.ended and (at_end or len(self.tokens) == self._most):
            piece += self.finish("end" if at_end else "length")
        return piece

    def finish(self, reason: Reason) -> str:
        """The rest of the text, when no more tokens come."""
        if self.ended:
            return ""
        self._held += "" if self._decoder is None else self._decoder.finish()
        text = self._release(len(self._held))
        self.reason = self.reason or reason
        return text

    def answer(self, prompt: int, text: str | None) -> Continuation:
        """What came of the row."""
        assert self.reason is not None, "it has ended"
        return Continuation(prompt, text, tuple(self.tokens), self.reason, tuple(self.chances), self.score)

    def _said(self, token: int) -> str:
        if self._decoder is None:
            return ""
        if (word := self._named.get(token)) is not None:
            if token not in self._shown:
                self._hidden.append((len(self._held), len(self._held) + len(word)))
            self._held += word
        else:
            self._held += self._decoder.push(token)
        return self._release(len(self._held) - self._may_stop())

    def _release(self, certain: int) -> str:
        """The text up to `certain`, or up to the first stop string, which ends the row."""
        stops = [self._held.index(text) for text in self._stop if text in self._held]
        if stops:
            self.reason, certain = "stop", min(stops)
        shown, at = "", 0
        for begin, end in self._hidden:
            shown += self._held[at : max(at, min(begin, certain))]
            at = min(end, certain)
        text = shown + self._held[at:certain]
        self._held = self._held[certain:]
        self._hidden = [(max(0, begin - certain), end - certain) for begin, end in self._hidden if end > certain]
        return text

    def _may_stop(self) -> int:
        """The number of last characters that may be the beginning of a stop string."""
        lengths = [n for text in self._stop for n in range(1, len(text)) if self._held.endswith(text[:n])]
        return max(lengths, default=0)
