"""Errors in the data that are meant for people."""

from __future__ import annotations

from anyformer.describe import UserError


class DataError(UserError):
    """The user's text, files or cache are wrong: the message says what, where, the actual value, and the remedy."""
