"""What the page's search knows beside its entries: the words of the field, and entries of the catalogue that a site lacks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from anyformer import catalogue
from anyformer.atlas import glossary


def search_data(without: Collection[str] | None = None) -> dict[str, Any]:
    """The glossary, and the entries of the catalogue that are not among those of a site; of the server none."""
    elsewhere = () if without is None else [line for line in catalogue.listing() if line.name not in without]
    return {
        "glossary": [asdict(each) for each in glossary()],
        "elsewhere": [asdict(line) for line in elsewhere],
    }
