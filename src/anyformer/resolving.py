"""One resolver: whatever names an architecture, on a command line or in Python, becomes the architecture here.

Rooms are imported where they are needed: a misspelt name is refused before torch is, and a catalogue name needs no converter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from os.path import exists, isdir  # which no name is too long for
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from anyformer import catalogue
from anyformer.describe import DescriptionError, change_all, read_data

if TYPE_CHECKING:
    from anyformer.model import Architecture

What: TypeAlias = "Architecture | str | Path | Mapping[str, Any]"
RUN, CHECKPOINT, CONFIG = "run.toml", "architecture.json", "config.json"
_LONGEST_CHAIN = 8
"""Most files that name one another for one architecture."""
P = ParamSpec("P")
R = TypeVar("R")


def architecture(what: What, *, tiny: bool = False, changes: Mapping[str, Any] | None = None) -> Architecture:
    """The architecture that `what` names.

    `what` is one of: a catalogue name; a TOML or JSON file, of an architecture or of a run; a `config.json` of Hugging Face;
    a directory of that layout, with weights or without; the directory of a run or of a checkpoint; one of these files as a
    dictionary; an `Architecture`.

    `tiny`: the same mechanisms at small sizes, one layer of each kind. `changes`: values by path, set after that.
    Raises `UserError`, which says what was looked for and where.
    """
    found = _found(what)
    if tiny:
        from anyformer.resizing.tiny import tiny as shrink

        found = shrink(found)
    bare = {path.removeprefix("architecture."): value for path, value in (changes or {}).items()}
    return change_all(found, bare) if bare else found


def is_run(what: str | Path) -> bool:
    """Whether `what` is the directory or the file of a run, rather than of an architecture."""
    path = Path(what)
    if isdir(path):
        return (path / RUN).is_file()
    if path.suffix not in (".toml", ".json"):
        return False
    data = read_data(path)
    return isinstance(data, Mapping) and "architecture" in data and "data" in data


def resolved(verb: Callable[Concatenate[Architecture, P], R]) -> Callable[Concatenate[What, P], R]:
    """The same function for whatever names an architecture."""

    @functools.wraps(verb)
    def taking(what: What, /, *args: P.args, **more: P.kwargs) -> R:
        return verb(architecture(what), *args, **more)

    return taking


def _found(what: What, chain: tuple[str, ...] = ()) -> Architecture:
    """`chain`: the files that named `what`, one after the other."""
    if isinstance(what, Mapping):
        return _of_data(what, "the dictionary", Path(), chain)
    if not isinstance(what, str | Path):
        return _checked(what)
    path = Path(what)
    if isdir(path):
        return _of_directory(path, chain)
    if isinstance(what, Path) or path.suffix in (".toml", ".json"):
        return _of_data(read_data(path), str(path), path.parent, chain)
    return catalogue.architecture(what)


def _checked(what: object) -> Architecture:
    from anyformer.model import Architecture

    if isinstance(what, Architecture):
        return what
    raise DescriptionError(f"an architecture is named by text, a path, a dictionary or itself, got {type(what).__name__}")


def _of_directory(path: Path, chain: tuple[str, ...]) -> Architecture:
    """Of a run, a checkpoint, or Hugging Face's layout, in this order: each holds what the one before it needs."""
    if (path / RUN).is_file():
        return _of_data(read_data(path / RUN), str(path / RUN), path, chain)
    if (path / CHECKPOINT).is_file():
        return _of_data(read_data(path / CHECKPOINT), str(path / CHECKPOINT), path, chain)
    if not (path / CONFIG).is_file():
        raise DescriptionError(
            f"holds none of {RUN} (a run), {CHECKPOINT} (a checkpoint), {CONFIG} (a Hugging Face model)", where=str(path)
        )
    from anyformer import huggingface

    if any(path.glob("*.safetensors")):
        return huggingface.architecture_of(path)[0]  # whether head and embedding are tied is read from the weights
    return huggingface.read_architecture(huggingface.read_config(path))[0]


def _of_data(data: Any, where: str, beside: Path, chain: tuple[str, ...]) -> Architecture:
    """Of plain data; a path that a run names is looked for `beside` its file first."""
    if not isinstance(data, Mapping):
        raise DescriptionError(f"should be a table, got {type(data).__name__}", where=where)
    if len(chain) > _LONGEST_CHAIN:
        raise DescriptionError(f"files name each other in a circle: {', '.join(chain[:4])}, ...", where=where)
    from anyformer.model import Architecture

    if "model_type" in data:
        from anyformer import huggingface

        return huggingface.read_architecture(huggingface.Config(data, where))[0]
    if "architecture" not in data:
        return Architecture.parse(data, where=where)
    named = data["architecture"]
    made = _found(near(named, beside), (*chain, where)) if isinstance(named, str) else Architecture.parse(named, where=where)
    # Of a run's changes those of its architecture: the first word is one of its fields.
    fields = ("architecture", *Architecture.model_fields)
    given = data.get("set", {})
    if not isinstance(given, Mapping):
        raise DescriptionError(f"set: should be a table of values by path, got {type(given).__name__}", where=where)
    changes = {path: value for path, value in given.items() if path.split(".")[0] in fields}
    return architecture(made, changes=changes)


def near(named: str, beside: Path) -> str | Path:
    """The file or directory that a run's file names, if it lies `beside` that file; else the name itself."""
    path = beside / named
    return path if exists(path) else named
