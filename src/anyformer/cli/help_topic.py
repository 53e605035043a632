"""A topic of `anyformer help`, and the files that the topics are told from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from anyformer.cli.pages import Item, Paragraph
from anyformer.costs.rows import PageLine

FILE = Path(__file__).with_name("topics.json")
"""Written by `python docs/make_help.py`: guides and mechanisms."""
PASSAGES = Path(__file__).with_name("passages.json")
"""Written by it too: every paragraph of the guides, by page and section."""


@dataclass(frozen=True)
class HelpTopic:
    """A title, the page, and where there is more."""

    name: str
    title: str
    page: tuple[Item, ...]
    more: str

    @property
    def items(self) -> Iterator[Item]:
        """The whole page."""
        yield PageLine(self.title, strong=True)
        yield PageLine("")
        yield from self.page
        yield Paragraph(self.more, hanging="")


@cache
def kept() -> Mapping[str, Any]:
    """What the program keeps of guides and mechanisms."""
    found: Mapping[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found
