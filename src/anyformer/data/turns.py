"""The turns of a chat in a record, however they are written: with roles and contents, or as ShareGPT has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyformer.data.fields import field_of, text_field, whole_text
from anyformer.data.row import BadRecord, RecordRow, shown
from anyformer.describe import json_data
from anyformer.text.chat.conversation import ANSWERING, Message, texts

_FORM = 'write it as [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]'
_ROLES: Mapping[str, str] = {
    "human": "user", "gpt": ANSWERING, "chatgpt": ANSWERING, "model": ANSWERING, "bot": ANSWERING, "ai": ANSWERING,
    "observation": "tool", "function_response": "tool",
}  # fmt: skip
"""Who speaks in a chat of ShareGPT's form, and that role's usual name."""


def turns_field(row: RecordRow, name: str) -> list[dict[str, Any]]:
    """The turns of a chat, at least one.

    A turn is `{"role": ..., "content": ...}`, or `{"from": "human", "value": ...}`; the content is a text, or a list of parts
    such as `{"type": "text", "text": ...}`, and may be absent beside `tool_calls`. Other fields are kept: templates read them.
    """
    value = field_of(row, name)
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _json(row, name, value)
    if not isinstance(value, list) or not value:
        raise BadRecord(row.where, f"field {name!r} should be a list of turns, got {shown(value)}", _FORM)
    return [_turn(row, f"{name}.{place}", turn) for place, turn in enumerate(value)]


def is_turns(value: Any) -> bool:
    """Whether a value looks like the turns of a chat."""
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, Mapping) and ("role" in first or "from" in first)


def tools_field(row: RecordRow, name: str) -> list[Any] | None:
    """The tools that a chat may use, as a list or as the JSON text of one; None if the record has none."""
    value = row.values.get(name)
    if isinstance(value, str) and value.strip():
        value = _json(row, name, value)
    if value is None or value == "":
        return None
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise BadRecord(row.where, f"field {name!r} should be a list of JSON schemas, got {shown(value)}", "mend it")
    return value


def one_turn(row: RecordRow, field: str, role: str) -> list[dict[str, Any]]:
    """The turns in a field; a text is one turn of `role`."""
    if isinstance(field_of(row, field), list):
        return turns_field(row, field)
    return [{"role": role, "content": text_field(row, field)}]


def refuse_blank(row: RecordRow, turns: list[dict[str, Any]], field: str) -> None:
    """Refuse an answer that says nothing."""
    for place, turn in enumerate(turns):
        if turn["role"] == ANSWERING and not any(text.strip() for text in _said(turn)):
            raise BadRecord(row.where, f"field '{field}.{place}.content' is an empty answer", "write one, or leave it out")


def _said(turn: Message) -> list[str]:
    return [text for key, value in turn.items() if key != "role" for text in texts(value) if text not in ("text", "type")]


def _turn(row: RecordRow, at: str, turn: Any) -> dict[str, Any]:
    reason = f"field {at!r} should have a text as role and as content, got {shown(turn)}"
    if not isinstance(turn, Mapping):
        raise BadRecord(row.where, reason, _FORM)
    made = {key: value for key, value in turn.items() if value is not None}
    speaker, said = made.pop("from", None), made.pop("value", None)
    if speaker is not None:
        made = {"role": _ROLES.get(speaker, speaker), "content": said, **made}
    content = made.get("content", "" if made.get("tool_calls") else None)
    parts = isinstance(content, list) and all(isinstance(part, Mapping) and "type" in part for part in content)
    if not isinstance(made.get("role"), str) or not (isinstance(content, str) or parts):
        raise BadRecord(row.where, reason, _FORM)
    for text in texts(made):
        whole_text(row, at, text)
    return made


def _json(row: RecordRow, name: str, text: str) -> Any:
    try:
        return json_data(text)
    except ValueError as error:
        raise BadRecord(row.where, f"field {name!r} is no JSON ({error})", "write it as a list") from None
