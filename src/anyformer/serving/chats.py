"""Answers at /v1/chat/completions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.serving.bodies import ChatBody, body_of
from anyformer.serving.forms import REASONS, TokenNames
from anyformer.serving.gathered import GatheredText
from anyformer.serving.served_model import AskedTexts, ServedModel


@dataclass(frozen=True)
class ChatDialect:
    """What was said, and the answer to it."""

    prefix = "chatcmpl"
    whole = "chat.completion"
    piece = "chat.completion.chunk"

    def asked(self, model: ServedModel, body: bytes) -> AskedTexts:
        return model.chat(body_of(ChatBody, body))

    def opening(self, place: int) -> Mapping[str, Any] | None:
        return {"index": place, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}

    def choice(self, asked: AskedTexts, place: int, found: GatheredText, names: TokenNames) -> dict[str, Any]:
        message = {"role": "assistant", "content": found.text, "refusal": None}
        return {"index": place, "message": message, **self._beside(asked, place, found, names)}

    def part(self, asked: AskedTexts, place: int, found: GatheredText, names: TokenNames, before: int) -> dict[str, Any] | None:
        beside = self._beside(asked, place, found, names)
        if not (found.text or beside["logprobs"] or beside["finish_reason"]):
            return None
        return {"index": place, "delta": {"content": found.text} if found.text else {}, **beside}

    def _beside(self, asked: AskedTexts, place: int, found: GatheredText, names: TokenNames) -> dict[str, Any]:
        told = None if asked.texts[place].logprobs is None else names.chat_logprobs(found.tokens)
        return {"logprobs": told, "finish_reason": REASONS[found.reason]}
