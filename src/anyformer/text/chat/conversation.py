"""`Chat`: what was said, and everything else that a template is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anyformer.text.errors import DataError

Message = Mapping[str, Any]
"""One turn: `role`, `content` (a text, or a list of parts such as `{"type": "text", "text": "..."}`), and whatever else its
template reads: `tool_calls`, `tool_call_id`, `name`, `reasoning_content`."""
Turns = Sequence[Message]
"""What was said, in order."""
ANSWERING = "assistant"
_REASONING = ("reasoning_content", "thinking", "reasoning")
"""The names of reasoning, the standard one first."""
_NAMES = frozenset({"role", "type", "id", "tool_call_id"})
"""Fields that say what others are, and nothing that is said."""


@dataclass(frozen=True)
class Chat:
    """Turns, and what a template is given beside them.

    `tools`: JSON schemas of functions, or functions with types and a docstring, which become such; `documents`: tables with
    `title` and `text`; `variables`: the template's own, such as `enable_thinking`; `template`: a name among the tokenizer's
    templates, the path of one, or its text; None: `tool_use` where there are tools and such a template, else `default`.
    """

    messages: Turns
    tools: Sequence[Any] | None = None
    documents: Sequence[Mapping[str, Any]] | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    template: str | None = None

    @classmethod
    def of(cls, said: Chat | Turns) -> Chat:
        """A chat of turns; a chat as it is."""
        return said if isinstance(said, Chat) else cls(said)

    def but(self, messages: Turns) -> Chat:
        """The chat with other turns."""
        return replace(self, messages=messages)

    def plain(self) -> Chat:
        """The chat as a template sees it: fields that are null left out, reasoning under its standard name, tools as schemas.

        `DataError` for what is no plain data.
        """
        return replace(
            self,
            messages=[_turn(message) for message in self.messages],
            tools=None if self.tools is None else [_plain(_schema(tool)) for tool in self.tools],
            documents=None if self.documents is None else [_plain(each) for each in self.documents],
            variables=_plain(self.variables),
        )

    def changed(self, change: Callable[[str], str]) -> Chat:
        """The chat with every text that it gives a template changed, names of fields too."""
        return replace(
            self,
            messages=changed(self.messages, change),
            tools=changed(self.tools, change),
            documents=changed(self.documents, change),
            variables=changed(self.variables, change),
        )

    def texts(self) -> Iterator[str]:
        """Every text that it gives a template, names of fields too."""
        for value in (self.messages, self.tools, self.documents, self.variables):
            yield from texts(value)


def texts(value: Any) -> Iterator[str]:
    """The texts in plain data, names of fields too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from texts(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from texts(item)


def changed(value: Any, change: Callable[[str], str]) -> Any:
    """Plain data with every text in it changed, names of fields too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key): changed(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [changed(item, change) for item in value]
    return value


def said(message: Message) -> list[str]:
    """The texts of a turn that somebody says: those in its fields, but for its role and for names of what stands where."""
    return [text for key, value in message.items() if key not in _NAMES for text in _said(value)]


def _said(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in _NAMES:
                yield from _said(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _said(item)


def replaced(message: Message, by: str) -> dict[str, Any]:
    """A turn that says `by` in the place of every text that is not blank."""
    return {key: value if key in _NAMES else _replaced(value, by) for key, value in message.items()}


def _replaced(value: Any, by: str) -> Any:
    if isinstance(value, str):
        return by if value.strip() else value
    if isinstance(value, Mapping):
        return {key: item if key in _NAMES else _replaced(item, by) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, by) for item in value]
    return value


def flat(message: Message) -> Message:
    """A turn whose content is one text, where it is a list of parts that are all text."""
    parts = message.get("content")
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) and part.get("type") == "text" for part in parts):
        return message
    return {**message, "content": "\n".join(part["text"] for part in parts)}


def _turn(message: Message) -> dict[str, Any]:
    kept = {key: _plain(value) for key, value in message.items() if value is not None}
    reasoning = next((kept[name] for name in _REASONING if name in kept), None)
    # Templates of gpt-oss read `thinking`.
    return kept if reasoning is None else {"thinking": reasoning, **kept, "reasoning_content": reasoning}


def _plain(value: Any) -> Any:
    """Data of JSON's own types alone, so that a template can do nothing with it but read."""
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return value if type(value) is kind else kind(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    raise DataError(f"a chat is plain data (texts, numbers, lists, tables), got {type(value).__name__}: {str(value)[:60]!r}")


def _schema(tool: Any) -> Any:
    """The JSON schema of a tool."""
    if isinstance(tool, Mapping):
        return tool
    if not callable(tool):
        raise DataError(f"a tool is a JSON schema or a function, got {type(tool).__name__}: {str(tool)[:60]!r}")
    try:
        from transformers.utils.chat_template_utils import get_json_schema
    except ImportError:
        raise DataError(
            f"the schema of the function {tool.__name__!r} is made by transformers, which is not installed: install "
            "anyformer[hf], or give the tool's JSON schema"
        ) from None
    try:
        return get_json_schema(tool)
    except Exception as error:  # the library's own errors share no base
        raise DataError(f"the function {tool.__name__!r} cannot become a tool: {error}") from None
