"""Replies read by the `response_template` that a tokenizer's authors give, through transformers' own parser."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from anyformer.describe import UserError
from anyformer.text.replies.parts import ReplyPart, ToolCall, call_of, told
from anyformer.text.tokenizers import Tokenizer

_REASONING = ("reasoning_content", "reasoning", "thinking")


def authors_template(tokenizer: Tokenizer) -> Mapping[str, Any] | None:
    """What the tokenizer's configuration says of replies; None where it says nothing."""
    found = tokenizer.config.get("response_template")
    return found if isinstance(found, Mapping) else None


class AuthorsReader:
    """Content and reasoning as they come, calls when each is whole. A part that the template's parser refuses is text."""

    def __init__(self, template: Mapping[str, Any], prompt: str, tools: Sequence[Mapping[str, Any]] = ()) -> None:
        if find_spec("transformers") is None:
            raise UserError(
                "the tokenizer's response_template is read by transformers, not installed here: pip install 'anyformer[hf]', "
                "or name --tool-format and --reasoning-format"
            )
        from transformers.utils.chat_parsing import ResponseParser

        try:
            self._parser = ResponseParser(json.loads(json.dumps(template)), prefix=prompt, tools=list(tools) or None)
        except (ValueError, TypeError) as error:
            raise UserError(
                f"the tokenizer's response_template cannot be read ({error}): name --tool-format and --reasoning-format"
            ) from None
        self._raw = ""
        """What came and is told in no part yet."""
        self._broken = False

    def push(self, text: str) -> ReplyPart:
        # Letter by letter, so that an error takes nothing with it that was read before.
        return told([self._part(letter, partial(self._parser.feed, letter)) for letter in text])

    def finish(self) -> ReplyPart:
        return self._part("", lambda: self._parser.finalize()[1])

    def _part(self, text: str, read: Callable[[], list[dict[str, Any]]]) -> ReplyPart:
        if self._broken:
            return ReplyPart(text)
        self._raw += text
        try:
            events = read()
        except (ValueError, TypeError, KeyError):
            self._broken = True
            return ReplyPart(self._raw)
        return told(map(self._told, events))

    def _told(self, event: Mapping[str, Any]) -> ReplyPart:
        name = event["field"]
        if event["type"] == "region_chunk" and (name == "content" or name in _REASONING):
            said = event["text"]
            self._raw = self._raw[self._raw.find(said) + len(said) :]
            return ReplyPart(said) if name == "content" else ReplyPart(reasoning=said)
        if event["type"] == "region_close" and name == "tool_calls":
            self._raw = ""
            return ReplyPart(calls=tuple(_calls(event["value"])))
        return ReplyPart()


def _calls(value: Any) -> list[ToolCall]:
    tables = value if isinstance(value, list) else [value]
    functions = [each.get("function", each) if isinstance(each, Mapping) else {} for each in tables]
    found = [call_of(each.get("name"), each.get("arguments", {})) for each in functions if isinstance(each, Mapping)]
    return [call for call in found if call is not None]
