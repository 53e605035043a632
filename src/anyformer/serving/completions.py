"""Texts at /v1/completions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.generation.chances import Chances
from anyformer.serving.bodies import CompletionBody, body_of
from anyformer.serving.forms import REASONS, TokenNames
from anyformer.serving.gathered import GatheredText
from anyformer.serving.served_model import AskedTexts, ServedModel


@dataclass(frozen=True)
class CompletionDialect:
    """A prompt and the text behind it, with `echo` both."""

    prefix = "cmpl"
    whole = piece = "text_completion"

    def asked(self, model: ServedModel, body: bytes) -> AskedTexts:
        return model.completion(body_of(CompletionBody, body))

    def opening(self, place: int) -> Mapping[str, Any] | None:
        return None

    def choice(self, asked: AskedTexts, place: int, found: GatheredText, names: TokenNames) -> dict[str, Any]:
        return self.part(asked, place, found, names, begins=True, before=0)

    def pieces(self, asked: AskedTexts, place: int, names: TokenNames) -> CompletionPieces:
        return CompletionPieces(self, asked, place, names)

    def part(
        self, asked: AskedTexts, place: int, found: GatheredText, names: TokenNames, *, begins: bool, before: int
    ) -> dict[str, Any]:
        """A choice; `begins`: nothing came before it; `before`: as many characters did."""
        body, request = asked.body, asked.texts[place]
        assert isinstance(body, CompletionBody), "it was read as one"
        text, tokens = found.text, [(token.number, token.chances) for token in found.tokens]
        if not asked.shown:
            text, tokens = "", []
        if body.echo and begins and names.tokenizer is not None:
            text = names.tokenizer.decode(request.tokens, special=not body.skip_special_tokens) + text
        if found.prompt or (request.echo and begins):
            told: list[Chances | None] = [None, *found.prompt]
            tokens = [*zip(request.tokens, told, strict=True), *tokens]
        logprobs = None if request.logprobs is None else names.completion_logprobs(tokens, before)
        return {"index": place, "text": text, "logprobs": logprobs, "finish_reason": REASONS[found.reason]}


@dataclass
class CompletionPieces:
    """The pieces of one text; `before`: characters that came."""

    dialect: CompletionDialect
    asked: AskedTexts
    place: int
    names: TokenNames
    before: int = 0

    def part(self, found: GatheredText) -> dict[str, Any] | None:
        choice = self.dialect.part(self.asked, self.place, found, self.names, begins=self.before == 0, before=self.before)
        self.before += len(choice["text"])
        return choice if choice["text"] or choice["logprobs"] or choice["finish_reason"] else None
