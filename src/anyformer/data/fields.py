"""The fields of a record, checked: each function gives a value of one type, or raises `BadRecord` with the remedy."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from anyformer.data.row import BadRecord, RecordRow, shown
from anyformer.describe import did_you_mean


def field_of(row: RecordRow, name: str) -> Any:
    """The value of a field, as it is; `a.b` is field `b` of the object in `a`, `a.0` the first item of a list."""
    if name in row.values:
        return row.values[name]
    value: Any = row.values
    for depth, word in enumerate(words := name.split(".")):
        if isinstance(value, Mapping) and word in value:
            value = value[word]
        elif isinstance(value, list) and word.isdecimal() and int(word) < len(value):
            value = value[int(word)]
        else:
            inside = f" inside {'.'.join(words[:depth])!r}, which is {shown(value)}" if depth else ""
            has = did_you_mean(word, map(str, value)) if isinstance(value, Mapping) else ""
            raise BadRecord(row.where, f"no field {name!r}{inside}{has}", "add it, or name the field that holds it")
    return value


def text_field(row: RecordRow, name: str) -> str:
    """A text, which may be empty."""
    value = field_of(row, name)
    if not isinstance(value, str):
        raise BadRecord(row.where, f"field {name!r} should be text, got {shown(value)}", "write it in quotes")
    return whole_text(row, name, value)


def choice_field(row: RecordRow, name: str, choices: Collection[str] | None = None) -> str:
    """The name of a class: a text that is not blank, or a whole number or truth value as text; one of `choices`, if given."""
    value = field_of(row, name)
    if isinstance(value, bool | int):
        value = str(value).lower()
    if not isinstance(value, str) or not value.strip():
        raise BadRecord(row.where, f"field {name!r} should name a class, got {shown(value)}", "give it a name or a number")
    if choices is not None and value not in choices:
        raise BadRecord(row.where, f"field {name!r} is {shown(value)}, no known class{did_you_mean(value, choices)}", "mend it")
    return whole_text(row, name, value)


def number_field(row: RecordRow, name: str) -> float:
    """A finite number, or a text that spells one (all is text in a CSV file)."""
    value = field_of(row, name)
    number = _number(value)
    if number is None or not math.isfinite(number):
        raise BadRecord(row.where, f"field {name!r} should be a finite number, got {shown(value)}", "write it as 0.5")
    return number


def whole_field(row: RecordRow, name: str) -> int:
    """A whole number, or a text that spells one."""
    value = field_of(row, name)
    number = value if isinstance(value, int) else _number(value)
    if number is None or isinstance(number, bool) or not math.isfinite(number) or number != int(number):
        raise BadRecord(row.where, f"field {name!r} should be a whole number, got {shown(value)}", "write it as 12")
    return int(number)


def truth_field(row: RecordRow, name: str) -> bool:
    """A truth value: true, 1, or a text that spells one of them (all is text in a CSV file); false likewise."""
    value = field_of(row, name)
    spelt = str(value).lower() if isinstance(value, bool | int | str) else ""
    if spelt not in ("true", "false", "1", "0"):
        raise BadRecord(row.where, f"field {name!r} should be true or false, got {shown(value)}", "write it as true")
    return spelt in ("true", "1")


def texts_field(row: RecordRow, name: str) -> list[str]:
    """A list of texts, at least one."""
    value = field_of(row, name)
    if not isinstance(value, list) or not value:
        raise BadRecord(row.where, f"field {name!r} should be a list of texts, got {shown(value)}", 'write it as ["a", "b"]')
    for place, item in enumerate(value):
        if not isinstance(item, str):
            raise BadRecord(row.where, f"field '{name}.{place}' should be text, got {shown(item)}", "write it in quotes")
        whole_text(row, f"{name}.{place}", item)
    return value


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def whole_text(row: RecordRow, name: str, text: str) -> str:
    """A text without half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        reason = f"field {name!r} has {text[error.start]!r}, half of a surrogate pair"
        raise BadRecord(row.where, reason, "write the whole character") from None
    return text


def full_text(row: RecordRow, name: str) -> str:
    """A text that is not blank."""
    text = text_field(row, name)
    if not text.strip():
        raise BadRecord(row.where, f"field {name!r} is empty", "write a text, or leave the record out")
    return text
