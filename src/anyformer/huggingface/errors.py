"""What can go wrong between a directory of Hugging Face's layout and an architecture of ours."""

from __future__ import annotations

from anyformer.describe import UserError


class HuggingFaceError(UserError):
    """A directory of Hugging Face's layout cannot be read or written as asked."""


class MismatchError(HuggingFaceError):
    """An architecture lacks a part that a model type always has; the message says which."""
