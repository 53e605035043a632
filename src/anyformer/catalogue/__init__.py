"""Published and small architectures by name. A listing reads a generated index and imports no torch."""

from __future__ import annotations

import importlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from anyformer.catalogue.row import Listed
from anyformer.catalogue.unlisted import unlisted
from anyformer.describe import DescriptionError, did_you_mean
from anyformer.hub.names import looks_like_a_model

if TYPE_CHECKING:
    from anyformer.model import Architecture

INDEX = Path(__file__).with_name("index.json")


@cache
def listing() -> tuple[Listed, ...]:
    """Every architecture of the catalogue, from the index."""
    return tuple(Listed.parse(line) for line in json.loads(INDEX.read_text(encoding="utf-8")))


def listed(name: str) -> Listed | None:
    """The line of the index with this name; None if there is none."""
    return next((entry for entry in listing() if entry.name == name), None)


def architecture(name: str, *, tiny: bool = False) -> Architecture:
    """The architecture of a catalogue name. `tiny`: every mechanism at small sizes, one layer of each kind.

    `anyformer.architecture` also takes files, directories and configurations.
    """
    return _tiny(name) if tiny else _made(name)


@cache
def _tiny(name: str) -> Architecture:
    from anyformer.resizing.tiny import tiny

    return tiny(_made(name))


@cache
def _made(name: str) -> Architecture:
    line = listed(name)
    if line is None:
        if reason := unlisted(name):
            raise DescriptionError(f"no architecture is called {name!r}. {reason}")
        nearest = did_you_mean(name, [entry.name for entry in listing()], "`anyformer list`")
        if looks_like_a_model(name):
            raise DescriptionError(f"no directory is called {name!r}; a model of a hub is named hub:{name}{nearest}")
        raise DescriptionError(
            f"no architecture is called {name!r}{nearest}; a path should end in .toml or .json, or be a directory that exists"
        )
    module = importlib.import_module(f"anyformer.catalogue.{line.lineage}")
    made: Architecture = next(entry.make() for entry in module.ENTRIES if entry.name == name)
    return made
