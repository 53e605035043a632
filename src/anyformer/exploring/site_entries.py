"""What a static site shows: entries of the catalogue by name, and architectures of one's own, named after their files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import exists  # which no name is too long for
from pathlib import Path

from anyformer import catalogue
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.resolving import CHECKPOINT, CONFIG, GGUF, RUN
from anyformer.resolving import architecture as resolved

USUAL = (CONFIG, CHECKPOINT, RUN)
"""Names that files of all architectures share: such a one is called after its directory."""
FILES = (".toml", ".json", GGUF)
"""Endings of files that hold an architecture."""


@dataclass(frozen=True)
class SiteEntries:
    """The `names` of a site in order; those that are not of the catalogue are its `own`."""

    names: tuple[str, ...]
    own: Mapping[str, Architecture]

    @property
    def of_catalogue(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.own)


def site_entries(given: Sequence[str]) -> SiteEntries:
    """The entries that names, files and directories give; raises `UserError` where two would have one name."""
    own: dict[str, Architecture] = {}
    names: dict[str, str] = {}
    taken = {entry.name.casefold(): entry.name for entry in catalogue.listing()}
    for what in dict.fromkeys(given):
        if catalogue.listed(what) is not None or not _is_place(what):
            catalogue.architecture(what)
            names[what] = what
            continue
        name = _name_of(what)
        if other := taken.get(name.casefold()):  # hosts of files may tell no capital from a small letter
            whose = names.get(other, "an entry of the catalogue")
            raise UserError(
                f"--entry {what}: {whose} is called {other!r} too, and a site has one sheet of a name: give the file, "
                "or the directory that it is called after, another name"
            )
        own[name], names[name], taken[name.casefold()] = resolved(what), what, name
    return SiteEntries(tuple(names), own)


def _is_place(what: str) -> bool:
    """Whether it names a file or a directory rather than an entry."""
    return exists(what) or Path(what).suffix in FILES


def _name_of(what: str) -> str:
    """The file's name without its ending, or the directory's."""
    path = Path(what).resolve()
    path = path.parent if path.name in USUAL else path
    name = path.stem if path.suffix in FILES and not path.is_dir() else path.name
    if not re.fullmatch(r"[^\W_][\w .+-]*", name):
        raise UserError(f"--entry {what}: {name!r} cannot be the name of a page: rename it with letters, digits and . + - _")
    return name
