"""Fills in `docs/reference/run.md`, every key of a run, and the time of saves in `docs/checkpoints.md`. A test compares.

python docs/make_train.py
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from page_text import filled, write

from anyformer.describe import Value
from anyformer.describe.docstrings import field_docstrings
from anyformer.model import Architecture
from anyformer.training import Run

DOCS = Path(__file__).parent
KEYS = DOCS / "reference" / "run.md"
SAVED = DOCS / "checkpoints.md"
RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "saves.json"
ELSEWHERE = (Architecture,)
"""Descriptions with a guide of their own."""
TYPES = {"int": "whole number", "float": "number", "str": "text", "bool": "true or false", "NoneType": "absent"}


def pages() -> dict[Path, str]:
    """Both pages as of today."""
    return filled((KEYS, SAVED), {"keys": tables(), "saves": saves()})


def saves() -> str:
    """How long training waited for its saves, from the committed measurement."""
    record = json.loads(RESULT.read_text(encoding="utf-8"))
    background, waiting = (f"{100 * record['shares'][way]:.1f} %" for way in ("background", "waiting"))
    rows = [row for row in record["results"] if row["way"] == "background"]
    alone, beside = (mean(row[key] for row in rows) for key in ("update_alone", "update_beside_a_write"))
    loads = [row["load"][when][0] for row in record["results"] for when in ("before", "after")]
    return (
        f"A run of {record['parameters'] / 1e6:.1f} M parameters on one thread, which saved "
        f"{rows[0]['checkpoint_bytes'] / 1e6:.0f} MB about every {record['seconds_between_saves']:.0f} s, waited for\n"
        f"{background} of its time, and for {waiting} where it waited for every write. The writer needs a processor too: an "
        f"update\nbeside a write took {beside:.1f} s, others {alone:.1f} s, on {record['machine']['cores']} cores that other "
        f"work kept busy (load {min(loads):.1f} to {max(loads):.1f};\n[saves.json](../benchmarks/results/saves.json)).\n"
    )


def tables() -> str:
    """One table of the run, then one of each value in it, in the order of the file."""
    once = dict.fromkeys(sections("", Run))
    return "\n".join(text for name, kind in once for text in table(name, kind)) + "\n"


def sections(name: str, kind: type[Value], above: tuple[type[Value], ...] = ()) -> Iterator[tuple[str, type[Value]]]:
    """A description and those within it, each with the key at which it stands; a family within itself is not said again."""
    yield name, kind
    for key, field in kind.model_fields.items():
        inside = values(field.annotation)
        for inner in inside:
            # Of a part that holds another of its own family, that family's tables stand where the part does.
            family = inner.kinds is not None and any(inner.kinds is each.kinds for each in (kind, *above))
            if inner not in ELSEWHERE and not family:
                yield from sections(f"{name}.{key}".lstrip("."), inner, (kind, *above))


def table(name: str, kind: type[Value]) -> Iterator[str]:
    """The keys of one description: what each may be, its default, what it means."""
    fields = {key: field for key, field in kind.model_fields.items() if key != "kind"}
    said = f', `kind = "{kind.model_fields["kind"].default}"`' if "kind" in kind.model_fields else ""
    yield f"### `[{name}]`{said}\n" if name else "### The run\n"
    yield first_sentence(kind.__doc__ or "") + "\n"
    if not fields:
        return
    yield "| key | what it may be | default | meaning |\n|---|---|---|---|"
    meanings = field_docstrings(kind)
    for key, field in fields.items():
        default = "required" if field.is_required() else shown(field.default)
        meaning = first_sentence(meanings.get(key) or field.description or "")
        yield f"| `{key}` | {admitted(field.annotation)} | {default} | {meaning} |"
    yield ""


def first_sentence(text: str) -> str:
    """The text as one line, for a cell of a table."""
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


def shown(default: Any) -> str:
    """A default as TOML has it; a part by its kind."""
    if default is None:
        return "absent"
    if isinstance(default, Value):
        kind = default.plain().get("kind")
        return f'`{{ kind = "{kind}" }}`' if kind else "its own defaults"
    if isinstance(default, tuple) and any(isinstance(item, Value) for item in default):
        return f"{len(default)} tables"
    if isinstance(default, tuple):
        return f"`{list(default)}`"
    return f"`{str(default).lower()}`" if isinstance(default, bool) else f"`{default!r}`".replace("'", '"')


def admitted(annotation: Any) -> str:
    """What a field takes, in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return admitted(inner[0])
    if origin is Literal:
        return ", ".join(shown(word) for word in inner)
    if origin in (Union, types.UnionType):
        words = [admitted(item) for item in inner if item is not type(None)]
        return "one of several kinds" if len(words) > 1 else words[0]
    if origin is tuple:
        return f"list of {admitted(inner[0])}"
    if isinstance(annotation, type) and issubclass(annotation, Value):
        return "one of several kinds" if annotation.__dict__.get("kinds") is not None else "a table"
    return TYPES.get(getattr(annotation, "__name__", ""), "see [architectures](../architectures.md)")


def values(annotation: Any) -> list[type[Value]]:
    """The descriptions that an annotation admits: of a family of parts, every kind of this package, plug-ins aside."""
    if isinstance(annotation, type):
        if not issubclass(annotation, Value):
            return []
        registry = vars(annotation).get("kinds")
        if registry is None:
            return [annotation]
        return [kind for _, kind in sorted(registry.items()) if kind.__module__.startswith("anyformer.")]
    return [found for item in get_args(annotation) for found in values(item)]


if __name__ == "__main__":
    write(pages())
