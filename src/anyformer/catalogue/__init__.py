"""Published and small architectures by name. Listing reads a generated index and imports no torch; making one does."""

from __future__ import annotations

import importlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from anyformer.catalogue.row import Listed
from anyformer.describe import DescriptionError, did_you_mean, read_data

if TYPE_CHECKING:
    from anyformer.model import Architecture

INDEX = Path(__file__).with_name("index.json")


@cache
def listing() -> tuple[Listed, ...]:
    """Every architecture of the catalogue, from the index."""
    return tuple(Listed.parse(line) for line in json.loads(INDEX.read_text(encoding="utf-8")))


def architecture(what: str | Path, *, tiny: bool = False) -> Architecture:
    """The architecture of a catalogue name, or of a TOML or JSON file (of an architecture, or of a run that has one).

    `tiny`: with small sizes and one layer of each kind, but with every mechanism, to try it out.
    """
    if tiny:
        from anyformer.catalogue.tiny import tiny as shrink

        return shrink(architecture(what))
    from anyformer.model import Architecture

    path = Path(what)
    if path.suffix in (".toml", ".json") or isinstance(what, Path):
        data = read_data(path)
        inner = data.get("architecture") if isinstance(data, dict) else None
        if isinstance(inner, str):
            return architecture(inner)
        return Architecture.parse(data if inner is None else inner, where=str(path))
    known = {entry.name: entry for entry in listing()}
    if what not in known:
        raise DescriptionError(
            f"no architecture is called {what!r}{did_you_mean(str(what), known)}; a path should end in .toml or .json"
        )
    module = importlib.import_module(f"anyformer.catalogue.{known[str(what)].lineage}")
    made: Architecture = next(entry.make() for entry in module.ENTRIES if entry.name == what)
    return made
