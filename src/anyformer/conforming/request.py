"""What an engine is asked, and what comes back, or should."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CompletionRequest:
    """Tokens that an engine reads, and how many it makes of them by taking the likeliest.

    `where`: the request in words, with what is particular of it: `length 33`. `read`: of the reference's own continuation so
    many tokens are read too, behind `tokens`. `whole`: the log-probabilities of the prompt are asked for. `cached`: keys and
    values that earlier requests left may be used. `temperature`: of the choice, which must not change what is reported.
    `text`: is sent in the place of `tokens`, which are what it must become. `aside`: is asked for what it leaves behind, its
    answer not compared. `forced`: a token that is made whatever the logits say; `stops`: whether it ends the text.
    """

    where: str
    tokens: tuple[int, ...]
    count: int = 1
    read: int = 0
    whole: bool = False
    cached: bool = False
    temperature: float = 0.0
    text: str | None = None
    aside: bool = False
    forced: int | None = None
    stops: bool = False

    @property
    def length(self) -> int:
        """Tokens of the prompt."""
        return len(self.tokens) + self.read


Round = tuple[CompletionRequest, ...]
"""Requests that are sent at once."""


@dataclass(frozen=True)
class TokenLogProbs:
    """A token at its place, its log-probability after what stands before it, in nats, and those of the likeliest tokens."""

    token: int
    logprob: float
    top: Mapping[int, float]

    @property
    def likeliest(self) -> int:
        return max(self.top, key=lambda token: self.top[token])

    @property
    def margin(self) -> float:
        """How much likelier the first token is than the second; infinite where only one is known."""
        first, *others = sorted(self.top.values(), reverse=True)
        return first - others[0] if others else float("inf")


@dataclass(frozen=True)
class Completion:
    """What was made of a request; None: a token that the engine does not show. `prompt`: of its second token on, where it was
    asked for and is shown.

    `read`: how many tokens the engine says it read; `stopped`: whether the text ended at an end token; both None where it does
    not say.
    """

    made: tuple[TokenLogProbs | None, ...]
    prompt: tuple[TokenLogProbs, ...] = ()
    read: int | None = None
    stopped: bool | None = None
