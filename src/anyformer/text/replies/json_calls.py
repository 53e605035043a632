"""Calls as JSON: between two words (Hermes 2, Qwen 2.5 and 3), behind one (Mistral), or alone (Llama 3)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyformer.text.replies.calls import CallFormat
from anyformer.text.replies.grammar import Spelling, calls_schema, json_of
from anyformer.text.replies.parts import ToolCall, call_of

_DECODER = json.JSONDecoder()
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)
"""A string of JSON, or the beginning of one that does not end."""


@dataclass(frozen=True)
class TaggedJson(CallFormat):
    """`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, one of these for each call."""

    words: tuple[str, ...] = ("<tool_call>",)
    spelt: tuple[str, ...] = ("</tool_call>",)

    def end(self, text: str) -> int | None:
        found = outside_strings(text, self.spelt[0], len(self.words[0]))
        return None if found is None else found + len(self.spelt[0])

    def calls(self, text: str, tools: Mapping[str, Mapping[str, Any]]) -> list[ToolCall] | None:
        return listed(text.removeprefix(self.words[0]).removesuffix(self.spelt[0]), "arguments")

    def grammar(self, tools: Sequence[Mapping[str, Any]], said: Spelling, *, single: bool) -> str:
        table = json_of(calls_schema(tools, "arguments"))
        several = "call" if single else 'call ("\\n" call)*'
        return f'answer: {several}\ncall: {said(self.words[0])} "\\n" table "\\n" {said(self.spelt[0])}\ntable: %json {table}'


@dataclass(frozen=True)
class MistralJson(CallFormat):
    """`[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`, or since 2025 for each call `[TOOL_CALLS]NAME[ARGS]{...}`, with
    `[CALL_ID]ID` in front of the arguments or without, or `[TOOL_CALLS]NAME{...}`."""

    words: tuple[str, ...] = ("[TOOL_CALLS]",)
    spelt: tuple[str, ...] = ("[ARGS]", "[CALL_ID]")

    def end(self, text: str) -> int | None:
        return outside_strings(text, self.words[0], len(self.words[0]))

    def calls(self, text: str, tools: Mapping[str, Mapping[str, Any]]) -> list[ToolCall] | None:
        said = text.removeprefix(self.words[0]).strip()
        if said.startswith(("[", "{")):
            return listed(said, "arguments")
        named = re.fullmatch(r"([^\s\[{]+)\s*(?:\[CALL_ID\][^\[{]*)?(?:\[ARGS\])?\s*(\{.*)", said, re.DOTALL)
        call = None if named is None else call_of(named[1], named[2])
        return None if call is None else [call]

    def grammar(self, tools: Sequence[Mapping[str, Any]], said: Spelling, *, single: bool) -> str:
        most = {"maxItems": 1} if single else {}
        tables = json_of({"type": "array", "items": calls_schema(tools, "arguments"), "minItems": 1, **most})
        return f"answer: {said(self.words[0])} tables\ntables: %json {tables}"


@dataclass(frozen=True)
class LlamaJson(CallFormat):
    """`{"name": ..., "parameters": {...}}`, several with `;` between them, with `<|python_tag|>` in front or without."""

    words: tuple[str, ...] = ("<|python_tag|>",)
    first: tuple[str, ...] = ("{",)

    def end(self, text: str) -> int | None:
        return None  # calls go on to the end of the reply

    def calls(self, text: str, tools: Mapping[str, Mapping[str, Any]]) -> list[ToolCall] | None:
        return listed(text.removeprefix(self.words[0]), "parameters", "arguments")

    def grammar(self, tools: Sequence[Mapping[str, Any]], said: Spelling, *, single: bool) -> str:
        table = json_of(calls_schema(tools, "parameters"))
        several = "call" if single else 'call ("; " call)*'
        return f"answer: {several}\ncall: %json {table}"


def listed(text: str, *arguments: str) -> list[ToolCall] | None:
    """The calls of a list, or of one or several tables; None where something else stands there too."""
    try:
        values = list(_values(text))
    except (ValueError, RecursionError):
        return None
    tables = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    found = [_call(table, arguments) for table in tables]
    calls = [call for call in found if call is not None]
    return calls if calls and len(calls) == len(found) else None


def _call(table: Any, arguments: tuple[str, ...]) -> ToolCall | None:
    if not isinstance(table, dict):
        return None
    given: Any = next((table[name] for name in arguments if name in table), {})
    return call_of(table.get("name"), given)


def _values(text: str) -> Iterator[Any]:
    """The values of JSON that stand one behind the other."""
    at = 0
    while rest := text[at:].lstrip(" \t\r\n;"):
        value, used = _DECODER.raw_decode(rest)
        yield value
        at = len(text) - len(rest) + used


def outside_strings(text: str, word: str, start: int) -> int | None:
    """The first place of a word that stands in no string of JSON."""
    while (found := text.find(word, start)) >= 0:
        string = next((each for each in _STRING.finditer(text, start) if each.end() > found), None)
        if string is None or string.start() > found:
            return found
        start = string.end()
    return None
