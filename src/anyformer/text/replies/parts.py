"""`ReplyPart`: a piece of a reply that is certain, and `ReplyReader`, which gives these as the text comes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class ToolCall:
    """A function that is called. `arguments`: the text of a JSON object."""

    name: str
    arguments: str


@dataclass(frozen=True)
class ReplyPart:
    """Text of the reply, of its reasoning, or calls that are whole; usually one of these."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()


class ReplyReader(Protocol):
    """Reads a reply. Its parts, put together by `told`, are the same however the text is cut into pieces."""

    def push(self, text: str) -> ReplyPart:
        """What more text makes certain."""
        ...

    def finish(self) -> ReplyPart:
        """What is left when no more text comes."""
        ...


class PlainReader:
    """A reply that is text and nothing else."""

    def push(self, text: str) -> ReplyPart:
        return ReplyPart(text)

    def finish(self) -> ReplyPart:
        return ReplyPart()


def told(parts: Iterable[ReplyPart]) -> ReplyPart:
    """The parts of a reply put together."""
    listed = list(parts)
    calls = tuple(call for part in listed for call in part.calls)
    return ReplyPart("".join(part.content for part in listed), "".join(part.reasoning for part in listed), calls)


def call_of(name: Any, arguments: Any) -> ToolCall | None:
    """A call by its name and its arguments, a table or the text of one; None where they are none."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    if not isinstance(name, str) or not name or not isinstance(arguments, Mapping):
        return None
    return ToolCall(name, json.dumps(arguments, ensure_ascii=False))


def parameters_of(tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """Of every function its parameters, each by name with its schema."""
    return {tool["function"]["name"]: (tool["function"].get("parameters") or {}).get("properties") or {} for tool in tools}


def beginning(text: str, words: Iterable[str]) -> int:
    """How many characters at the end of a text may be the beginning of a word."""
    lengths = (n for word in words for n in range(min(len(word) - 1, len(text)), 0, -1) if text.endswith(word[:n]))
    return max(lengths, default=0)
