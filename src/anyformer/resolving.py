"""One resolver for command line and Python: from a name, a path or a dictionary to the architecture.

Packages are imported where they are needed: a misspelt name is refused before torch is imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from os.path import exists, isdir  # which no name is too long for
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from anyformer import catalogue
from anyformer.describe import PLUGINS, DescriptionError, change_all, read_data
from anyformer.hub import configuration, fetched, has_weights, head, is_hub, parsed
from anyformer.stores import is_url

if TYPE_CHECKING:
    from anyformer.model import Architecture

ArchitectureLike: TypeAlias = "Architecture | str | Path | Mapping[str, Any]"
RUN, CHECKPOINT, CONFIG, SAELENS = "run.toml", "architecture.json", "config.json", "cfg.json"
GGUF = ".gguf"
_INSIDE = "architecture."
"""What the paths into a run's architecture begin with."""
_LONGEST_CHAIN = 8
"""Longest chain of files, each of which names the next."""
P = ParamSpec("P")
R = TypeVar("R")


def architecture(what: ArchitectureLike, *, tiny: bool = False, changes: Mapping[str, Any] | None = None) -> Architecture:
    """The architecture that `what` names.

    `what` is one of: a catalogue name; a TOML or JSON file, of an architecture or of a run; a `config.json` of Hugging Face;
    a directory of that layout, with weights or without; a GGUF file; the directory of a run or of a checkpoint, or the URL of
    one in a store; a model of a hub, `hub:ORG/NAME`, of which the configuration alone is fetched; one of these files as a
    dictionary; an `Architecture`.

    `tiny`: the same mechanisms at small sizes, one layer of each kind. `changes`: values by path, set after that.
    Raises `UserError`, which says what was looked for and where.
    """
    resolved = _resolve(what)
    if tiny:
        from anyformer.resizing.tiny import tiny as shrink

        resolved = shrink(resolved)
    values = {path.removeprefix(_INSIDE): value for path, value in (changes or {}).items()}
    return change_all(resolved, values) if values else resolved


def is_run(what: str | Path) -> bool:
    """Whether `what` is the directory or the file of a run, rather than of an architecture."""
    path = Path(what)
    if isdir(path):
        return (path / RUN).is_file()
    if path.suffix not in (".toml", ".json"):
        return False
    data = read_data(path)
    return isinstance(data, Mapping) and ("architecture" in data or "start_from" in data) and "data" in data


def resolved(verb: Callable[Concatenate[Architecture, P], R]) -> Callable[Concatenate[ArchitectureLike, P], R]:
    """The same function, for an architecture in any form."""

    @functools.wraps(verb)
    def accept(what: ArchitectureLike, /, *args: P.args, **more: P.kwargs) -> R:
        return verb(architecture(what), *args, **more)

    return accept


def _resolve(what: ArchitectureLike, chain: tuple[str, ...] = ()) -> Architecture:
    """The architecture; `chain`: the files that led to `what`, each of which named the next."""
    if isinstance(what, Mapping):
        return _from_data(what, "the dictionary", Path(), chain)
    if not isinstance(what, str | Path):
        return _checked(what)
    if is_hub(what):
        return _from_hub(what)
    if isinstance(what, str) and is_url(what):
        from anyformer.checkpoint import at_hand

        return _from_directory(at_hand(what), chain)
    path = Path(what)
    if isdir(path):
        return _from_directory(path, chain)
    if path.suffix == GGUF:
        return _from_gguf(path)
    if isinstance(what, Path) or path.suffix in (".toml", ".json"):
        return _from_data(read_data(path), str(path), path.parent, chain)
    return catalogue.architecture(what)


def _checked(what: object) -> Architecture:
    from anyformer.model import Architecture

    if isinstance(what, Architecture):
        return what
    raise DescriptionError(f"an architecture is named by text, a path, a dictionary or itself, got {type(what).__name__}")


def _from_directory(path: Path, chain: tuple[str, ...]) -> Architecture:
    """From the directory of a run, a checkpoint or a Hugging Face model; a run's may hold the files of the others too."""
    if (path / RUN).is_file():
        return _from_data(read_data(path / RUN), str(path / RUN), path, chain)
    if (path / CHECKPOINT).is_file():
        return _from_data(read_data(path / CHECKPOINT), str(path / CHECKPOINT), path, chain)
    if (path / SAELENS).is_file():
        from anyformer.huggingface.saelens import saelens_architecture

        return saelens_architecture(path)
    if not (path / CONFIG).is_file():
        raise DescriptionError(
            f"holds none of {RUN} (a run), {CHECKPOINT} (a checkpoint), {CONFIG} (a Hugging Face model)", where=str(path)
        )
    from anyformer import huggingface

    if any(path.glob("*.safetensors")):
        return huggingface.architecture_of(path)[0]  # whether head and embedding are tied is read from the weights
    return huggingface.read_architecture(huggingface.read_config(path))[0]


def _from_hub(what: str | Path) -> Architecture:
    """By the configuration alone, unless the weights are in the cache: they say whether head and embedding are tied."""
    if parsed(what).file is not None:
        return _from_gguf_head(what)
    place = fetched(what, configuration)
    if (place / CONFIG).is_file() and not has_weights(place):
        return _resolve(place / CONFIG)
    return _from_directory(place, ())


def _from_gguf_head(what: str | Path) -> Architecture:
    """By the beginning of a file; by the whole where its vocabulary is longer than any that is known."""
    from anyformer.huggingface import HuggingFaceError

    try:
        return _from_gguf(head(what))
    except HuggingFaceError:
        from anyformer.checkpoint import at_hand

        return _from_gguf(at_hand(what))


def _from_gguf(path: Path) -> Architecture:
    from anyformer import huggingface

    return huggingface.architecture_of(path)[0]


def _from_data(data: Any, where: str, beside: Path, chain: tuple[str, ...]) -> Architecture:
    """From plain data; a path in the data is looked for `beside` its file first."""
    if not isinstance(data, Mapping):
        raise DescriptionError(f"should be a table, got {type(data).__name__}", where=where)
    if len(chain) > _LONGEST_CHAIN:
        raise DescriptionError(f"files name one another in a circle: {', '.join(chain[:4])}, ...", where=where)
    from anyformer.model import Architecture

    if "model_type" in data:
        from anyformer import huggingface

        return huggingface.read_architecture(huggingface.Config(data, where))[0]
    if "architecture" not in data and "start_from" not in data:
        return Architecture.parse(data, where=where)
    # A run without an architecture has that of the model that it starts from.
    named, data = data.get("architecture", data.get("start_from")), dict(data)
    if isinstance(named, str):
        base = _resolve(path_beside(named, beside), (*chain, where))
    else:
        base = Architecture.parse(inside(data, named), where=where)
    # Of a run's changes only those of its architecture: their paths begin with one of its fields.
    fields = ("architecture", *Architecture.model_fields)
    changes = {path: value for path, value in pop_changes(data, where).items() if path.split(".")[0] in fields}
    values = {path.removeprefix(_INSIDE): value for path, value in changes.items()}
    return change_all(base, values, data.get(PLUGINS, ())) if values else base


def pop_changes(data: dict[str, Any], where: str) -> Mapping[str, Any]:
    """Remove the table `set` from a run's file and return it: values by path."""
    changes = data.pop("set", {})
    if not isinstance(changes, Mapping):
        raise DescriptionError(f"set: should be a table of values by path, got {type(changes).__name__}", where=where)
    return changes


def inside(data: Mapping[str, Any], table: Any) -> Any:
    """A table of a file's data with the names of the plug-ins that the file was written with."""
    return {PLUGINS: data[PLUGINS], **table} if PLUGINS in data and isinstance(table, Mapping) else table


def path_beside(named: str, beside: Path) -> str | Path:
    """The file or directory `named` in a file, if it is `beside` that file; else the name itself."""
    path = beside / named
    return path if exists(path) else named
