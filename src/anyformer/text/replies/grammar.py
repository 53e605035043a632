"""Grammars of replies: of an answer behind its reasoning, and of calls, in the form of Lark that llguidance reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyformer.text.replies.reasoning import ReasoningFormat
from anyformer.text.tokenizers import Tokenizer

Spelling = Callable[[str], str]
"""How a grammar says a word: as text, or as the special token that it is."""
WRITTEN = {"whitespace_pattern": "[ ]?"}
"""How JSON is written: at most a blank between its parts, so that a text cannot go on with blanks for ever."""

_ESCAPES = re.compile(r"\\.|/|\n", re.DOTALL)


def spelling(tokenizer: Tokenizer) -> Spelling:
    """How a grammar says the words of a tokenizer."""
    special = tokenizer.special_tokens
    return lambda word: f"<[{special[word]}]>" if word in special else json.dumps(word, ensure_ascii=False)


def answer(language: str, text: str, reasoning: ReasoningFormat | None, begun: bool, said: Spelling) -> tuple[str, str]:
    """The language, by name and text, of a reply whose answer is of one, behind reasoning where the model writes such."""
    if reasoning is None:
        return language, text
    inner = {
        "json_schema": lambda: f"%json {json_of(json.loads(text))}",
        "regex": lambda: "/" + _ESCAPES.sub(_escaped, text) + "/",
        "lark": lambda: f"%lark {{\n{text}\n}}",
    }[language]()
    return "lark", thoughtful(f"answer: {inner}", reasoning, begun, said)


def _escaped(match: re.Match[str]) -> str:
    """What stands between slashes for a part of a regular expression."""
    return {"/": "\\/", "\n": "\\n"}.get(match[0], match[0])


def thoughtful(rules: str, reasoning: ReasoningFormat | None, begun: bool, said: Spelling) -> str:
    """A grammar whose `answer` is that of some rules, behind reasoning where the model writes such."""
    if reasoning is None:
        return f"start: answer\n{rules}\n"
    closing = said(reasoning.closing)
    if closing.startswith("<["):
        body = f"words: TEXT {closing}\nTEXT: /(?s:.*)/"
    else:
        body = f"words[lazy]: /(?s:.*){reasoning.closing.replace('/', chr(92) + '/').replace('[', chr(92) + '[')}/"
    start = "thought answer" if begun else "thought? answer"
    opening = "" if begun else said(reasoning.opening) + " "
    return f"start: {start}\nthought: {opening}words gap\n{body}\ngap: /\\s{{0,4}}/\n{rules}\n"


def json_of(schema: Mapping[str, Any]) -> str:
    """A schema as a grammar holds it."""
    return json.dumps({**schema, "x-guidance": WRITTEN}, ensure_ascii=False)


def calls_schema(tools: Sequence[Mapping[str, Any]], arguments: str) -> dict[str, Any]:
    """The schema of a call of one of some functions; `arguments`: the name that they stand under."""
    tables = [
        {
            "type": "object",
            "properties": {
                "name": {"const": tool["function"]["name"]},
                arguments: tool["function"].get("parameters") or {"type": "object"},
            },
            "required": ["name", arguments],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    return tables[0] if len(tables) == 1 else {"anyOf": tables}
