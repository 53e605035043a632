"""Whether the memory of training can be read off the built model here."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from anyformer.describe import UserError

NEEDS_TORCH = "the memory of training is traced by torch: pip install torch"


@cache
def traceable() -> bool:
    """Whether torch is installed, by which models are built."""
    return find_spec("torch") is not None


def check_traceable() -> None:
    """Refuse a question that only a built model answers, where none can be built."""
    if not traceable():
        raise UserError(NEEDS_TORCH)
