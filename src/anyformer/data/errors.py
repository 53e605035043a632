"""The one error of this room that is meant for people."""

from __future__ import annotations

from anyformer.describe import UserError


class DataError(UserError):
    """Something about the user's text, files or cache is wrong: says what, where, the actual value, and the remedy."""
