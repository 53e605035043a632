"""`CompletionServer`: an engine as `conform` asks it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from anyformer.conforming.request import Completion, CompletionRequest


class CompletionServer:
    """The base of servers, each of which speaks one protocol.

    `called`: the server in words; `model`: the name under which it serves; `longest`: the most positions that it reads; None
    where it does not say. `vocabulary`: the number of its logits, likewise.
    """

    called: str
    model: str | None = None
    longest: int | None = None
    vocabulary: int | None = None

    def ask(self, request: CompletionRequest, top: int) -> Completion:
        """What the server makes of a request, with the log-probabilities of `top` tokens."""
        raise NotImplementedError

    def ask_together(self, requests: Sequence[CompletionRequest], top: int) -> list[Completion]:
        """What it makes of several, sent at once."""
        if len(requests) == 1:
            return [self.ask(requests[0], top)]
        with ThreadPoolExecutor(len(requests)) as pool:
            return list(pool.map(lambda request: self.ask(request, top), requests))
