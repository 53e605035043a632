"""Arguments that name what a store or a hub has: fetched once the command runs, where --quiet and errors are as of any work."""

from __future__ import annotations

import functools
from collections.abc import Callable
from os import environ
from pathlib import Path
from typing import Any

from anyformer.cli.terminal import tell
from anyformer.hub.names import is_hub, suggested
from anyformer.stores import is_url


class Elsewhere(str):
    """The URL of a store, or the name of a model on a hub."""


def is_elsewhere(text: str) -> bool:
    """Whether a text names what a store or a hub has."""
    return is_url(text) or is_hub(text) or suggested(text) is not None


def place(text: str) -> Path | Elsewhere:
    """The parser of such an argument: the path that it names, or what is fetched later."""
    return Elsewhere(text) if is_elsewhere(text) else Path(text)


def fetched(named: str) -> Path:
    """The path that an argument names; what a store or a hub has is fetched, and that is told."""
    if isinstance(found := place(named), Path):
        return found
    from anyformer.checkpoint import at_hand

    if environ.get("RANK", "0") == "0" and not suggested(named):
        tell(f"anyformer: fetching {named} unless it is here")
    return at_hand(named)


def with_fetched(run: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose arguments of this kind are paths."""

    @functools.wraps(run)
    def command(**options: Any) -> Any:
        return run(**{name: fetched(value) if isinstance(value, Elsewhere) else value for name, value in options.items()})

    return command
