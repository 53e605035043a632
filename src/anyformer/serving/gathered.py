"""`GatheredText`: what has come of one text of a request so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from anyformer.generation.chances import Chances, Token
from anyformer.generation.rows import Reason
from anyformer.serving.served_text import TextEvent


@dataclass
class GatheredText:
    """`prompt`: the log-probabilities of its prompt's tokens from the second on, where they were asked for."""

    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    prompt: tuple[Chances, ...] = ()
    reason: Reason | None = None

    def add(self, event: TextEvent) -> None:
        self.text += event.piece
        if event.token is not None:
            self.tokens.append(event.token)
        self.prompt = self.prompt or event.prompt
        self.reason = event.reason
