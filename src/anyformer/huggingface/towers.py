"""The towers of a composite: what of its files is left aside when its text model is read."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import isfile  # which no name is too long for
from pathlib import Path
from typing import TypedDict

from anyformer.huggingface.config import read_config
from anyformer.huggingface.files import Stored
from anyformer.huggingface.registry import family_of
from anyformer.huggingface.stored import INDEX, WHOLE
from anyformer.model import Architecture

_OUTER = re.compile(r"(model|thinker|vlm)\.")
"""What stands before the name of a tower, perhaps twice."""


class TowersAsked(TypedDict):
    """The towers with which a composite is read."""

    images: bool
    audio: bool


def towers_asked(architecture: Architecture) -> TowersAsked:
    """Those with which the files of an architecture were read."""
    return {"images": architecture.sees, "audio": architecture.audio is not None}


@dataclass(frozen=True)
class CompositeTower:
    """A part of a composite that is not its text model: for images, for sound, or a projection from them."""

    name: str
    tensors: int
    parameters: int

    def __str__(self) -> str:
        count = f"{self.parameters / 1e6:,.1f} M" if self.parameters >= 1e6 else f"{self.parameters:,}"
        return f"{self.name} ({self.tensors:,} tensors, {count} parameters)"


def left_aside(directory: str | Path, *, images: bool = False, audio: bool = False) -> tuple[CompositeTower, ...]:
    """The towers of a directory; none where it is no composite, or holds no weights.

    `images`, `audio`: what is left aside of them when the composite is read with its images, or its sound.
    """
    directory = Path(directory)
    if not (isfile(directory / "config.json") and any(isfile(directory / name) for name in (INDEX, WHOLE))):
        return ()
    family = family_of(read_config(directory), images=images, audio=audio)
    return towers_of(Stored(directory, family.base, family.older_names, family.text_name))


def told_of(path: str | Path) -> str:
    """A line on what is not read of a composite's directory or `config.json`; empty of anything else."""
    path = Path(path)
    directory = path.parent if path.name == "config.json" else path
    if not isfile(directory / "config.json") or isfile(directory / "manifest.json"):
        return ""
    family = family_of(read_config(directory))
    towers = left_aside(directory)
    if family.text is None or towers:
        return aside(towers) if towers else ""
    return f"the text model of {family.model_type} ({family.text.model_type}); its towers are left aside"


def towers_of(stored: Stored) -> tuple[CompositeTower, ...]:
    """The tensors that are left aside, by the first word of their names."""
    found: dict[str, list[int]] = {}
    for name in stored.aside:
        inner = _OUTER.sub("", _OUTER.sub("", name, count=1), count=1) if _OUTER.match(name) else name
        found.setdefault(inner.partition(".")[0], []).append(math.prod(stored.source.shape(name)))
    return tuple(CompositeTower(name, len(sizes), sum(sizes)) for name, sizes in sorted(found.items()))


def aside(towers: Sequence[CompositeTower]) -> str:
    """One line that names them."""
    return f"left aside: {', '.join(map(str, towers))}"
