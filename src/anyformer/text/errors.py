"""Errors in the data that are meant for people."""

from __future__ import annotations

from anyformer.describe import UserError


class DataError(UserError):
    """The user's text, files or cache are wrong: the message says what, where, the actual value, and the remedy."""


def check_unicode(text: str) -> None:
    """`DataError` for half of a surrogate pair, which no tokenizer reads."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the text has {text[error.start]!r}, half of a surrogate pair") from None
