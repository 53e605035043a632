"""Fields of the record that a prompt came from, as rewards read them."""

from __future__ import annotations

from typing import Any

from anyformer.data.fields import field_of
from anyformer.data.row import BadRecord, RecordRow
from anyformer.rewards.reward import Query, RewardError, shown


def value_of(query: Query, name: str, reward: str) -> Any:
    """The value of a field, `a.b` of the object in `a`; `RewardError` where the record has none."""
    try:
        return field_of(RecordRow("the record", dict(query.record)), name)
    except BadRecord as error:
        raise RewardError(
            f"reward {reward}: {error.reason} in the record of the prompt {query.shown}; name the field that holds it"
        ) from None


def text_of(query: Query, name: str, reward: str) -> str:
    """The text of a field; a number or truth value as JSON writes it."""
    value = value_of(query, name, reward)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise RewardError(
        f"reward {reward}: field {name!r} should be a text or a number, got {shown(str(value))}, in the record of the prompt "
        f"{query.shown}"
    )


def texts_of(query: Query, name: str, reward: str) -> tuple[str, ...]:
    """The texts of a field, a list of texts or one."""
    value = value_of(query, name, reward)
    if isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value):
        return tuple(value)
    if isinstance(value, list | tuple):
        raise RewardError(
            f"reward {reward}: field {name!r} should be a list of texts, got {shown(str(value))}, in the record of the prompt "
            f"{query.shown}"
        )
    return (text_of(query, name, reward),)
