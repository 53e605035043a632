"""The error of a change that no weights can be carried over."""

from __future__ import annotations

from anyformer.describe import UserError


class TransformError(UserError):
    """A change of architecture that no operation carries weights over; the message names the place and the remedy."""
