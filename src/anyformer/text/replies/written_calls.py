"""Calls that are written otherwise: as XML (Qwen3-Coder, Qwen 3.5), as Python (Llama 4, OLMo), by DeepSeek's tokens."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.text.replies.calls import CallFormat
from anyformer.text.replies.parts import ToolCall, call_of

_FUNCTION = re.compile(r"\s*<function=([^>\s]+)>(.*?)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)
_DEEPSEEK = re.compile(
    r"\s*<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>([^\n]+)\n```json\n(.*?)\n```|([^\n]+?)<｜tool▁sep｜>(.*?))<｜tool▁call▁end｜>\s*",
    re.DOTALL,
)


@dataclass(frozen=True)
class XmlCalls(CallFormat):
    """`<tool_call><function=NAME><parameter=NAME>VALUE</parameter>...</function></tool_call>`. A value is text where the
    function's schema says so, and JSON elsewhere if it can be."""

    words: tuple[str, ...] = ("<tool_call>",)
    spelt: tuple[str, ...] = ("</tool_call>",)

    def end(self, text: str) -> int | None:
        found = text.find(self.spelt[0])
        return None if found < 0 else found + len(self.spelt[0])

    def calls(self, text: str, tools: Mapping[str, Mapping[str, Any]]) -> list[ToolCall] | None:
        body = text.removeprefix(self.words[0]).removesuffix(self.spelt[0])
        found = _every(_FUNCTION, body)
        calls = [self._call(name, inside, tools.get(name, {})) for name, inside in found or ()]
        made = [call for call in calls if call is not None]
        return made if made and len(made) == len(calls) else None

    def _call(self, name: str, text: str, parameters: Mapping[str, Any]) -> ToolCall | None:
        given = _every(_PARAMETER, text) if text.strip() else []
        if given is None:
            return None
        return call_of(name, {key: _typed(value, parameters.get(key)) for key, value in given})


@dataclass(frozen=True)
class PythonCalls(CallFormat):
    """`[name(key=value, ...), ...]`: calls of Python whose arguments are named literals."""

    first: tuple[str, ...] = ("[",)

    def end(self, text: str) -> int | None:
        return None  # calls go on to the end of the reply

    def calls(self, text: str, tools: Mapping[str, Mapping[str, Any]]) -> list[ToolCall] | None:
        try:
            listed = ast.parse(text.strip(), mode="eval").body
            if not isinstance(listed, ast.List):
                return None
            made = [_python_call(each) for each in listed.elts]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        calls = [call for call in made if call is not None]
        return calls if calls and len(calls) == len(made) else None


@dataclass(frozen=True)
class DeepSeekCalls(CallFormat):
    """`<｜tool▁calls▁begin｜>`, calls, `<｜tool▁calls▁end｜>`: each call has name and JSON between words of its own, since
    V3.1 without a fence around the JSON."""

    words: tuple[str, ...] = ("<｜tool▁calls▁begin｜>",)
    spelt: tuple[str, ...] = (
        "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
    )  # fmt: skip

    def end(self, text: str) -> int | None:
        found = text.find(self.spelt[0])
        return None if found < 0 else found + len(self.spelt[0])

    def calls(self, text: str, tools: Mapping[str, Mapping[str, Any]]) -> list[ToolCall] | None:
        body = text.removeprefix(self.words[0]).removesuffix(self.spelt[0])
        found = [call_of(one or other, inside or given) for one, inside, other, given in _every(_DEEPSEEK, body) or ()]
        calls = [call for call in found if call is not None]
        return calls if calls and len(calls) == len(found) else None


def _every(pattern: re.Pattern[str], text: str) -> list[tuple[str, ...]] | None:
    """The groups of matches that make up a text; None where something else stands in it."""
    found, at = [], 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            return None
        found.append(match.groups())
        at = match.end()
    return found


def _typed(value: str, schema: Any) -> Any:
    """A value as its schema has it."""
    if isinstance(schema, Mapping) and schema.get("type") == "string":
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _python_call(node: ast.expr) -> ToolCall | None:
    if not isinstance(node, ast.Call) or node.args:
        return None
    name = ast.unparse(node.func)
    arguments = {each.arg: ast.literal_eval(each.value) for each in node.keywords if each.arg is not None}
    if len(arguments) != len(node.keywords):
        return None
    try:
        return call_of(name, arguments)
    except (TypeError, ValueError):  # a set, or bytes
        return None
