"""Answers at /v1/chat/completions."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyformer.serving.bodies import ChatBody, body_of
from anyformer.serving.forms import REASONS, TokenNames
from anyformer.serving.gathered import GatheredText
from anyformer.serving.served_model import AskedTexts, ServedModel
from anyformer.text.replies import ReplyPart, ReplyReader, ToolCall, told

NAME = 9
"""Letters of a call's name: templates of Mistral take so many and no other."""


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
        pieces = self.pieces(asked, place, names)
        part = pieces.read(found)
        message: dict[str, Any] = {"role": "assistant", "content": part.content, "refusal": None}
        if part.reasoning:
            message["reasoning_content"] = part.reasoning
        if part.calls:
            message = {**message, "content": part.content or None, "tool_calls": calls_table(part.calls)}
        return {"index": place, "message": message, **pieces.beside(found)}

    def pieces(self, asked: AskedTexts, place: int, names: TokenNames) -> ChatPieces:
        assert asked.replies is not None, "it is a chat"
        return ChatPieces(asked, place, names, asked.replies.reader())


@dataclass
class ChatPieces:
    """The pieces of one answer, in which reasoning and calls are read out of the text."""

    asked: AskedTexts
    place: int
    names: TokenNames
    reader: ReplyReader
    calls: int = field(default=0)
    """Calls that came."""

    def read(self, found: GatheredText) -> ReplyPart:
        """What more text says, and all that is left where it ends."""
        parts = [self.reader.push(found.text)]
        if found.reason is not None:
            parts.append(self.reader.finish())
        part = told(parts)
        body = self.asked.body
        single = isinstance(body, ChatBody) and body.parallel_tool_calls is False
        calls = part.calls[: max(0, 1 - self.calls)] if single else part.calls
        self.calls += len(calls)
        return ReplyPart(part.content, part.reasoning, calls)

    def part(self, found: GatheredText) -> dict[str, Any] | None:
        first = self.calls
        part, beside = self.read(found), self.beside(found)
        delta: dict[str, Any] = {"content": part.content} if part.content else {}
        if part.reasoning:
            delta["reasoning_content"] = part.reasoning
        if part.calls:
            delta["tool_calls"] = calls_table(part.calls, first)
        if not (delta or beside["logprobs"] or beside["finish_reason"]):
            return None
        return {"index": self.place, "delta": delta, **beside}

    def beside(self, found: GatheredText) -> dict[str, Any]:
        """What stands beside a text."""
        logprobs = None if self.asked.texts[self.place].logprobs is None else self.names.chat_logprobs(found.tokens)
        reason = REASONS[found.reason]
        return {"logprobs": logprobs, "finish_reason": "tool_calls" if reason == "stop" and self.calls else reason}


def calls_table(calls: Sequence[ToolCall], first: int | None = None) -> list[dict[str, Any]]:
    """Calls in OpenAI's form; of a piece with their places among all calls, from `first` on."""
    letters = string.ascii_letters + string.digits
    tables: list[dict[str, Any]] = [
        {
            "id": "".join(secrets.choice(letters) for _ in range(NAME)),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in calls
    ]
    return tables if first is None else [{"index": first + number, **table} for number, table in enumerate(tables)]
