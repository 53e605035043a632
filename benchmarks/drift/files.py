"""A configuration with a key moved, as a file of it says it and as it is read here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.drift.keys import Path as Keys
from benchmarks.drift.keys import text_path

from anyformer.huggingface.canonical import canonical
from anyformer.model import Architecture
from anyformer.parts import Initialisation
from huggingface.case import Case


def with_move(config: Mapping[str, Any], path: Keys, move: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with keys set in the table that holds the last of `path`; a key whose value is `...` is left out."""
    if len(path) > 1:
        inner = config.get(path[0])
        return {**config, path[0]: with_move(inner if isinstance(inner, Mapping) else {}, path[1:], move)}
    return {key: value for key, value in {**config, **move}.items() if value is not ...}


def table_of_tokens(case: Case, theirs: Any) -> Any:
    """What transformers embeds a model's input with; none where it reads sound, or where its text is a model within."""
    try:
        return None if text_path(case) else theirs.get_input_embeddings()
    except NotImplementedError:  # the answer of its classes that read waves
        return None


def computation(architecture: Architecture) -> Architecture:
    """What an architecture computes, by which first values it is trained left out."""
    return canonical(architecture.but(initialisation=Initialisation()))


def table(directory: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((directory / "config.json").read_text())
    return read


def named(keys: Mapping[str, Any], model_type: str, theirs: Any) -> dict[str, Any]:
    """Keys as a file has them that a model of theirs is saved with."""
    names = {"model_type": model_type, "architectures": [type(theirs).__name__]}
    found: dict[str, Any] = json.loads(json.dumps({**keys, **names}, default=_plain))
    return found


def _plain(value: Any) -> str:
    return str(value).removeprefix("torch.")
