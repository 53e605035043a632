"""Fills in the tables of `docs/training.md` and `docs/reference/recipes.md`, and draws the recipes' curves.

Objectives come from their classes, results of recipes from a result file, usual objectives from the catalogue.

python docs/make_training.py
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from page_text import filled, write

from anyformer import catalogue
from anyformer.data import Data
from anyformer.data.builtin import SOURCES
from anyformer.describe import UserError, read_data
from anyformer.describe.docstrings import first_sentence
from anyformer.objectives import Objective, default_objective

DOCS = Path(__file__).parent
PAGES = (DOCS / "training.md", DOCS / "reference" / "recipes.md")
RECIPES = Path(__file__).parents[1] / "recipes"
RESULT = Path(__file__).parents[1] / "benchmarks" / "results" / "recipes.json"
CURVES = Path(__file__).parent / "pictures" / "recipes.png"
COLUMNS = 6
"""Curves beside each other."""


def pages() -> dict[Path, str]:
    """Both pages with their tables as of today."""
    return filled(PAGES, {name: "\n".join(lines()) + "\n" for name, lines in TABLES.items()})


def objectives() -> Iterator[str]:
    """Every objective: what it is, the kinds of data it reads, its recipe."""
    recipes = _recipes()
    yield "| objective | what the model learns | data, any of | recipe |\n|---|---|---|---|"
    for kind, entry in sorted(Objective.kinds.items()):
        reads = ", ".join(f"`{name}`" for name, data in Data.kinds.items() if issubclass(data, entry.reads))
        written = ", ".join(f"[{name}](../recipes/{name})" for name in recipes.get(kind, ())) or "-"
        yield f"| `{kind}` | {first_sentence(entry)} | {reads} | {written} |"


def reached() -> Iterator[str]:
    """What every recipe reached on held-out data, beside its baseline."""
    yield "| recipe | updates | loss | baseline | which is | metrics |\n|---|---|---|---|---|---|"
    for one in _results():
        base = one["baseline"]
        metrics = ", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in one["metrics"].items()) or "-"
        named = f"[{one['recipe']}](../../recipes/{one['recipe']}.toml)"
        yield f"| {named} | {one['updates']:,} | {one['loss']:.3f} | {base['loss']:.3f} | {base['model']} | {metrics} |"


def draw() -> None:
    """The recipes' losses over updates, each with its baseline."""
    results = _results()
    rows = -(-len(results) // COLUMNS)
    figure = Figure(figsize=(2.2 * COLUMNS, 1.9 * rows), dpi=100, layout="constrained")
    places = figure.subplots(rows, COLUMNS, squeeze=False).flat
    for axes, one in zip(places, results, strict=False):
        steps, losses = zip(*one["curve"], strict=True)
        axes.plot(steps, losses, ".-", linewidth=1.2, markersize=3)
        axes.axhline(one["baseline"]["loss"], color="grey", linestyle="--", linewidth=1)
        axes.set_title(one["recipe"], fontsize=8)
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    for axes in list(figure.axes)[len(results) :]:
        axes.remove()
    figure.savefig(CURVES, facecolor="white")


def builtin() -> Iterator[str]:
    """The records that every machine has."""
    yield "| word | records |\n|---|---|"
    yield "| `python-stdlib` | The text itself, a document per file. |"
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


def _results() -> list[dict[str, Any]]:
    """The committed results of `benchmarks/recipes.py`, in the order of the recipes' names."""
    results: list[dict[str, Any]] = json.loads(RESULT.read_text(encoding="utf-8"))["results"]
    return results


def _recipes() -> Mapping[str, list[str]]:
    """The recipes of each objective."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(RECIPES.glob("*.toml")):
        found[read_data(path).get("objective", {}).get("kind", "causal")].append(path.name)
    return found


TABLES = {each.__name__: each for each in (objectives, reached, builtin, entries, refused)}


if __name__ == "__main__":
    write(pages())
    draw()
