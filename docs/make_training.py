"""Fills in the tables of `docs/training.md`: objectives from their classes, and which catalogue entry is trained with which.

python docs/make_training.py
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from anyformer import catalogue
from anyformer.data import Data
from anyformer.data.builtin import SOURCES
from anyformer.describe import UserError, read_data
from anyformer.describe.docstrings import first_sentence
from anyformer.objectives import Objective, default_objective

PAGE = Path(__file__).with_name("training.md")
RECIPES = Path(__file__).parents[1] / "recipes"


def page() -> str:
    """The page with its tables as of today."""
    text = PAGE.read_text(encoding="utf-8")
    tables = {"objectives": objectives(), "builtin": builtin(), "entries": entries(), "refused": refused()}
    for name, lines in tables.items():
        table = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.S)
        assert table.search(text), f"the page has no place for {name}"
        made = "\n".join(lines) + "\n"
        text = table.sub(lambda _, made=made: made, text)
    return text


def objectives() -> Iterator[str]:
    """Every objective: what it is, the kinds of data it reads, its recipe."""
    recipes = _recipes()
    yield "| objective | what the model learns | data | recipe |\n|---|---|---|---|"
    for kind, entry in sorted(Objective.kinds.items()):
        reads = " or ".join(f"`{name}`" for name, data in Data.kinds.items() if issubclass(data, entry.reads))
        written = ", ".join(f"[{name}](../recipes/{name})" for name in recipes.get(kind, ())) or "-"
        yield f"| `{kind}` | {first_sentence(entry)} | {reads} | {written} |"


def builtin() -> Iterator[str]:
    """The records that every machine has."""
    yield "| word | records |\n|---|---|"
    yield "| `python-stdlib` | The text itself, a document for each file. |"
    yield from (f"| `{word}` | {source.sentence} |" for word, source in SOURCES.items())


def entries() -> Iterator[str]:
    """The catalogue by shape and default objective."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, (shape, objective, _) in sorted(_usual().items()):
        if objective:
            groups[shape, objective].append(name)
    yield "| shape | objective | entries |\n|---|---|---|"
    for (shape, objective), names in sorted(groups.items()):
        shown = ", ".join(f"`{name}`" for name in names[:3]) + (", ..." if len(names) > 3 else "")
        yield f"| {shape} | `{objective}` | {len(names)}: {shown} |"


def refused() -> Iterator[str]:
    """The entries that no objective trains, each with the reason of the objective that comes nearest."""
    none = {name: reason for name, (_, objective, reason) in sorted(_usual().items()) if not objective}
    if not none:
        yield "Every entry has an objective."
        return
    yield "| entry | reason |\n|---|---|"
    yield from (f"| `{name}` | {reason} |" for name, reason in none.items())


def _usual() -> Mapping[str, tuple[str, str, str]]:
    """Name -> (shape, default objective or nothing, reason of a refusal)."""
    found = {}
    for entry in catalogue.listing():
        architecture = catalogue.architecture(entry.name, tiny=True)
        try:
            found[entry.name] = architecture.shape_of_model, default_objective(architecture).kind, ""
        except UserError as error:
            found[entry.name] = architecture.shape_of_model, "", str(error).splitlines()[1].strip()
    return found


def _recipes() -> Mapping[str, list[str]]:
    """The recipes of each objective."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(RECIPES.glob("*.toml")):
        found[read_data(path).get("objective", {}).get("kind", "causal")].append(path.name)
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
