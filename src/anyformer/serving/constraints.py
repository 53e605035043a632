"""What form an answer must have: a JSON schema, a regular expression, a grammar, a choice, or calls of functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from anyformer.generation.processors.grammars import Grammar, GrammarError, Language
from anyformer.serving.bodies import ChatBody, ChoiceBody
from anyformer.serving.conversations import ReplySource
from anyformer.serving.protocol_error import ProtocolError
from anyformer.text import Tokenizer
from anyformer.text.replies.grammar import answer, spelling, thoughtful

FORMATS = ("text", "json_object", "json_schema")


def grammar_of(
    body: ChoiceBody, tokenizer: Tokenizer | None, replies: ReplySource | None, size: int, ends: Sequence[int]
) -> Grammar | None:
    """The grammar that a request's texts follow; None where they are free. Refused is what cannot be followed.

    `size`: of the logits; `ends`: tokens that end a text.
    """
    asked = [each for each in (_format(body), _structure(body), _calls(body, tokenizer, replies)) if each is not None]
    if not asked:
        return None
    names = [name for name, _, _ in asked]
    if len(asked) > 1:
        raise ProtocolError(f"{' and '.join(names)} both say what form the text has: give one of them", param=names[1])
    name, language, text = asked[0]
    if tokenizer is None:
        raise ProtocolError(f"{name}: the model has no tokenizer, so no grammar can be followed", param=name)
    if replies is not None and name != "tool_choice":
        reasoning = replies.form.reasoning
        begun = reasoning is not None and reasoning.begun(replies.prompt)
        language, text = _answer(name, language, text, replies, begun, tokenizer)
    if body.ignore_eos:
        raise ProtocolError(
            f"{name}: the text ends where its form does, and ignore_eos lets none end: leave it out", param=name
        )
    grammar = Grammar(language=language, text=text, tokenizer=tokenizer)
    try:
        grammar.places(size, ends)  # compiled here, and not between two steps of the texts
    except GrammarError as error:
        raise ProtocolError(f"{name}: {error}", param=name) from None
    return grammar


def _answer(
    name: str, language: Language, text: str, replies: ReplySource, begun: bool, tokenizer: Tokenizer
) -> tuple[Language, str]:
    if replies.form.authors is not None:
        return language, text
    found, made = answer(language, text, replies.form.reasoning, begun, spelling(tokenizer))
    return ("lark" if found == "lark" else language), made


def _format(body: ChoiceBody) -> tuple[str, Language, str] | None:
    """What `response_format` says."""
    given, name = body.response_format, "response_format"
    if given is None:
        return None
    word = given.get("type")
    if word not in FORMATS:
        raise ProtocolError(f"{name}.type = {str(word)[:40]!r} should be one of {', '.join(FORMATS)}", param=name)
    if word == "text":
        return None
    if word == "json_object":
        return name, "json_schema", json.dumps({"type": "object"})
    table = given.get("json_schema")
    schema = table.get("schema") if isinstance(table, Mapping) else None
    if not isinstance(schema, Mapping):
        raise ProtocolError(f"{name}.json_schema.schema: should be a JSON schema", param=name)
    return name, "json_schema", json.dumps(_plain(schema))


def _structure(body: ChoiceBody) -> tuple[str, Language, str] | None:
    """What `structured_outputs` says, as vLLM names it."""
    given, name = body.structured_outputs, "structured_outputs"
    if given is None:
        return None
    words = [word for word in given if given[word] is not None]
    if len(words) != 1 or words[0] not in STRUCTURES:
        raise ProtocolError(f"{name}: should have one of {', '.join(STRUCTURES)}", param=name)
    (word,) = words
    return name, *STRUCTURES[word](given[word], f"{name}.{word}")


def _schema(value: Any, where: str) -> tuple[Language, str]:
    return "json_schema", value if isinstance(value, str) else json.dumps(_plain(value))


def _alternatives(value: Any, where: str) -> tuple[Language, str]:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(each, str) and each for each in value):
        raise ProtocolError(f"{where}: should be a list of texts", param="structured_outputs")
    return "lark", "start: " + " | ".join(json.dumps(each, ensure_ascii=False) for each in value)


def _written(language: Language, value: Any, where: str) -> tuple[Language, str]:
    if not isinstance(value, str):
        raise ProtocolError(f"{where}: should be a text", param="structured_outputs")
    return language, value


STRUCTURES: Mapping[str, Callable[[Any, str], tuple[Language, str]]] = {
    "json": _schema, "regex": partial(_written, "regex"), "choice": _alternatives, "grammar": partial(_written, "lark"),
}  # fmt: skip
"""What `structured_outputs` may name, and how it becomes a language and its text."""


def _calls(body: ChoiceBody, tokenizer: Tokenizer | None, replies: ReplySource | None) -> tuple[str, Language, str] | None:
    """The grammar of calls, where `tool_choice` wants some."""
    name = "tool_choice"
    if not isinstance(body, ChatBody) or body.tool_choice in (None, "none", "auto") or replies is None or tokenizer is None:
        return None
    choice = body.tool_choice
    wanted = None if isinstance(choice, str) else choice["function"]["name"]
    tools = [tool for tool in replies.tools if wanted in (None, tool["function"]["name"])]
    form, said = replies.form, spelling(tokenizer)
    single = wanted is not None or body.parallel_tool_calls is False
    rules = None if form.calls is None else form.calls.grammar(tools, said, single=single)
    if rules is None:
        raise ProtocolError(
            f"{name}: calls can be had of the model for certain where their form is hermes, mistral or llama (--tool-format), "
            "and this one's is another: give auto",
            param=name,
        )
    begun = form.reasoning is not None and form.reasoning.begun(replies.prompt)
    return name, "lark", thoughtful(rules, form.reasoning, begun, said)


def _plain(value: Any) -> Any:
    """Frozen tables and lists as JSON writes them."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
