"""A copy of an engine's answers with one mistake put in: of the kinds that engines make with many requests and not with one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from anyformer.conforming import Completion, CompletionRequest, CompletionServer, TokenLogProbs

CHUNK, SEEN, BLOCK, STALE = 100, 10, 16, 3


class DistortedServer(CompletionServer):
    """What another server answers, asked otherwise than it should be."""

    def __init__(self, inner: CompletionServer) -> None:
        self.inner, self.called = inner, inner.called
        self.model, self.longest, self.vocabulary = inner.model, inner.longest, inner.vocabulary

    def ask(self, request: CompletionRequest, top: int) -> Completion:
        return self.inner.ask(self.asked(request), top)

    def ask_together(self, requests: Sequence[CompletionRequest], top: int) -> list[Completion]:
        answers = self.inner.ask_together([self.asked(request) for request in requests], top)
        return [self.told(answer, request) for answer, request in zip(answers, requests, strict=True)]

    def asked(self, request: CompletionRequest) -> CompletionRequest:
        """The request that the engine takes it for."""
        return request

    def told(self, answer: Completion, request: CompletionRequest) -> Completion:
        """The answer that it makes of its own."""
        return answer


class StaleState(DistortedServer):
    """The end of the text before stays in the cache."""

    left: tuple[int, ...] = ()

    def asked(self, request: CompletionRequest) -> CompletionRequest:
        left, self.left = self.left, request.tokens[-STALE:]
        return replace(request, tokens=(*left, *request.tokens))


class PaddingAttended(DistortedServer):
    """Rows of a batch are padded on the left, and the padding is read as tokens."""

    def ask_together(self, requests: Sequence[CompletionRequest], top: int) -> list[Completion]:
        width = max(len(request.tokens) for request in requests)
        padded = [replace(each, tokens=(*([0] * (width - len(each.tokens))), *each.tokens)) for each in requests]
        return super().ask_together(padded, top)


class ForgottenChunk(DistortedServer):
    """A later piece of a prompt sees the last few tokens alone of the pieces before it."""

    def asked(self, request: CompletionRequest) -> CompletionRequest:
        at = CHUNK * ((len(request.tokens) - 1) // CHUNK)
        return replace(request, tokens=request.tokens[max(at - SEEN, 0) :])


class CachedPositions(DistortedServer):
    """Behind a cached prefix the text goes on one position too far."""

    def __init__(self, inner: CompletionServer) -> None:
        super().__init__(inner)
        self.seen: list[tuple[int, ...]] = []

    def asked(self, request: CompletionRequest) -> CompletionRequest:
        if not request.cached:
            return request
        text = request.tokens
        hit = max((_common(text[:-1], old) for old in self.seen), default=0)
        self.seen.append(text)
        return replace(request, tokens=(*text[:hit], text[hit - 1], *text[hit:]) if hit else text)


class CarelessBlocks(DistortedServer):
    """A block is found again by all its tokens but the last."""

    def __init__(self, inner: CompletionServer) -> None:
        super().__init__(inner)
        self.blocks: dict[tuple[int, ...], tuple[int, ...]] = {}

    def asked(self, request: CompletionRequest) -> CompletionRequest:
        text = request.tokens
        for end in range(BLOCK, len(text) if request.cached else 0, BLOCK):
            text = (*self.blocks.setdefault(text[: end - 1], text[:end]), *text[end:])
        return replace(request, tokens=text)


class HeatedReport(DistortedServer):
    """Log-probabilities are reported after temperature."""

    def told(self, answer: Completion, request: CompletionRequest) -> Completion:
        if not request.temperature:
            return answer
        return replace(answer, made=tuple(place and _heated(place, request.temperature) for place in answer.made))


def _heated(place: TokenLogProbs, temperature: float) -> TokenLogProbs:
    """The place after temperature, its likeliest tokens taken for all."""
    known = {token: logprob / temperature for token, logprob in {**place.top, place.token: place.logprob}.items()}
    total = math.log(sum(map(math.exp, known.values())))
    found = {token: logprob - total for token, logprob in known.items()}
    return TokenLogProbs(place.token, found[place.token], {token: found[token] for token in place.top})


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


RUNTIME = {
    "a state that an earlier request left": (StaleState, "reset"),
    "log-probabilities after temperature": (HeatedReport, "temperature"),
    "a piece of a prompt that forgets the ones before": (ForgottenChunk, "chunked"),
    "padding that is read": (PaddingAttended, "batch"),
    "positions off by one behind a cached prefix": (CachedPositions, "cached"),
    "blocks shared that differ in their last token": (CarelessBlocks, "shared"),
}
"""Mistakes, and the case that must name each."""
