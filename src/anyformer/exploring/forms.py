"""A description in the forms in which it is copied: TOML, Python, and a command with `--set`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

from anyformer.describe import get, parse_assignment, to_json, to_toml
from anyformer.describe.amounts import typed
from anyformer.describe.value import as_data
from anyformer.model import Architecture

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def forms(of: str, changes: Sequence[str], made: Architecture) -> dict[str, str]:
    """The architecture that `changes` make of what `of` names, in every form."""
    given = dict(map(parse_assignment, changes))
    values = {path: as_data(get(made, path)) if typed(value) else value for path, value in given.items()}
    said = "" if not values else f", changes={values!r}"
    words = ["anyformer", "cost", of, *(word for change in changes for word in ("--set", change))]
    python = f"import anyformer as af\n\narch = af.architecture({of!r}{said})\nmodel = af.build(arch)\n"
    return {"toml": to_toml(made), "json": to_json(made), "python": python, "set": shlex.join(words)}


def inline(data: Any) -> str:
    """A value as `--set` takes it: TOML in one line, `none` of one that is absent."""
    if data is None:
        return "none"
    if isinstance(data, dict):
        pairs = (f"{key if _BARE.match(key) else json.dumps(key)} = {inline(item)}" for key, item in data.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(data, list | tuple):
        return f"[{', '.join(map(inline, data))}]"
    return json.dumps(data, ensure_ascii=False)
