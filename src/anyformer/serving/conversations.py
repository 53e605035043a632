"""What a chat's request says: its turns, the functions that may be called, and how its answer is read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anyformer.serving.bodies import ChatBody
from anyformer.serving.media import part_of
from anyformer.serving.protocol_error import ProtocolError
from anyformer.text import DataError, Tokenizer
from anyformer.text.chat import Chat, prompt_tokens
from anyformer.text.replies import ReplyForm, ReplyReader


@dataclass(frozen=True)
class ReplySource:
    """How the answer to a prompt is read: by the model's form, calls of `tools` among it."""

    form: ReplyForm = field(default_factory=ReplyForm)
    prompt: str = ""
    tools: Sequence[Mapping[str, Any]] = ()

    def reader(self) -> ReplyReader:
        return self.form.reader(self.prompt, self.tools)


def chat_of(body: ChatBody) -> tuple[Chat, list[tuple[str, bytes]]]:
    """The chat that a body asks an answer to; the kinds and bytes of the images and sounds in it, in order."""
    files = list[tuple[str, bytes]]()
    turns = [_turn(each, number, files) for number, each in enumerate(body.messages)]
    tools = tools_of(body)
    return Chat(turns, tools=tools or None, variables=body.chat_template_kwargs or {}), files


def tools_of(body: ChatBody) -> list[Mapping[str, Any]]:
    """The functions that may be called; none where no call is wanted."""
    given = body.tools or ()
    names = [_tool_name(each, number) for number, each in enumerate(given)]
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is not None:
        raise ProtocolError(f"tools: the function {twice[:80]!r} is given twice", param="tools")
    choice = body.tool_choice
    if choice not in (None, "none", "auto", "required"):
        _check_named(choice, names)
    if choice == "required" and not names:
        raise ProtocolError("tool_choice = 'required' needs tools: give some, or leave it out", param="tool_choice")
    return [] if choice == "none" else [dict(each) for each in given]


def _check_named(choice: Any, names: Sequence[str]) -> None:
    function = choice.get("function") if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise ProtocolError(
            'tool_choice: should be none, auto, required, or {"type": "function", "function": {"name": NAME}}',
            param="tool_choice",
        )
    if name not in names:
        raise ProtocolError(f"tool_choice: {name[:80]!r} is none of the tools: {', '.join(names)[:200]}", param="tool_choice")


def _tool_name(tool: Mapping[str, Any], number: int) -> str:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    if tool.get("type", "function") != "function" or not isinstance(name, str) or not name:
        raise ProtocolError(
            f'tools.{number}: should be {{"type": "function", "function": {{"name": NAME, "parameters": SCHEMA}}}}',
            param="tools",
        )
    parameters = function.get("parameters", {}) if isinstance(function, Mapping) else {}
    properties = parameters.get("properties", {}) if isinstance(parameters, Mapping) else None
    if not isinstance(properties, Mapping):
        raise ProtocolError(f"tools.{number}: the parameters of {name[:80]!r} are no JSON schema of an object", param="tools")
    return name


def asked_tokens(tokenizer: Tokenizer, chat: Chat) -> list[int]:
    """The tokens that ask for an answer. Arguments of calls are tables, as templates want them, or their texts where a template
    takes these alone."""
    try:
        tokens = prompt_tokens(tokenizer, chat)
    except DataError:
        written = replace(chat, messages=[_with_written_arguments(turn) for turn in chat.messages])
        if written == chat:
            raise
        tokens = prompt_tokens(tokenizer, written)
        chat = written
    if chat.tools and tokens == prompt_tokens(tokenizer, replace(chat, tools=None)):
        raise ProtocolError(
            "tools: this model's chat template writes no functions, so the model would not know of them: describe them in a "
            "message",
            param="tools",
        )
    return tokens


def _with_written_arguments(turn: Mapping[str, Any]) -> Mapping[str, Any]:
    calls = turn.get("tool_calls")
    if not calls:
        return turn
    written = [
        {**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"], ensure_ascii=False)}}
        for call in calls
    ]
    return {**turn, "tool_calls": written}


def _turn(message: Mapping[str, Any], number: int, files: list[tuple[str, bytes]]) -> Mapping[str, Any]:
    """A turn whose content is text, or parts that are text or `files`; the arguments of its calls are tables."""
    where = f"messages.{number}"
    if not isinstance(message.get("role"), str):
        raise ProtocolError(f"{where}: says no role: give system, user or assistant", param="messages")
    made = dict(message)
    if made.get("tool_calls"):
        made["tool_calls"] = _calls(made["tool_calls"], where)
        made["content"] = made.get("content") or ""
    content = made.get("content")
    if isinstance(content, list | tuple):
        made["content"] = [_part(part, f"{where}.content.{place}", files) for place, part in enumerate(content)]
    elif content is not None and not isinstance(content, str):
        raise ProtocolError(f"{where}.content: should be a text or a list of parts", param="messages")
    return made


def _part(part: Any, where: str, files: list[tuple[str, bytes]]) -> Mapping[str, Any]:
    """A part of a content as a template reads it."""
    if isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return part
    found = part_of(part, where) if isinstance(part, Mapping) and isinstance(part.get("type"), str) else None
    if found is None:
        kind = part.get("type") if isinstance(part, Mapping) else part
        raise ProtocolError(
            f"{where}: is a part {str(kind)[:40]!r}, and text, image_url and input_audio are read here", param="messages"
        )
    files.append(found)
    return {"type": found[0]}


def _calls(given: Any, where: str) -> list[dict[str, Any]]:
    """Calls that were made, their arguments as tables."""
    calls = given if isinstance(given, list | tuple) else [given]
    found = []
    for place, call in enumerate(calls):
        function = call.get("function") if isinstance(call, Mapping) else None
        arguments = function.get("arguments") if isinstance(function, Mapping) else None
        try:
            table = json.loads(arguments) if isinstance(arguments, str) else arguments
        except (ValueError, RecursionError):
            table = None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str) or not isinstance(table, Mapping):
            raise ProtocolError(
                f"{where}.tool_calls.{place}: should have a function with a name, and arguments that are the text of a JSON "
                "object",
                param="messages",
            )
        found.append({**call, "function": {**function, "arguments": table}})
    return found
