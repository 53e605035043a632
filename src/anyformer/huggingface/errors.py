"""Errors of reading and writing directories of Hugging Face's layout."""

from __future__ import annotations

from anyformer.describe import UserError


class HuggingFaceError(UserError):
    """A directory of Hugging Face's layout cannot be read or written as asked."""


class MismatchError(HuggingFaceError):
    """An architecture lacks a part that a model type always has; the message says which."""
