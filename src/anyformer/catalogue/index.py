"""Writes the index that `anyformer list` reads: `python -m anyformer.catalogue.index`. A test keeps it up to date."""

from __future__ import annotations

import importlib
import json

from anyformer.catalogue import INDEX
from anyformer.tally import Shape

LINEAGES = ("original", "gpt", "llama")
"""The modules of the catalogue, in the order listed."""


def index() -> str:
    """The text of the index."""
    lines = []
    for lineage in LINEAGES:
        for entry in importlib.import_module(f"anyformer.catalogue.{lineage}").ENTRIES:
            made = entry.make()
            facts = {
                "name": entry.name,
                "lineage": lineage,
                "year": entry.year,
                "shape": made.shape_of_model,
                "parameters": made.cost(Shape()).parameters,
                "summary": entry.summary,
                "source": entry.source,
            }
            lines.append(json.dumps(facts, ensure_ascii=False))
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    INDEX.write_text(index(), encoding="utf-8")
