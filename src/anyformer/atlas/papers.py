"""Papers that a text names: the number of arXiv, and what stands before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

NUMBER = re.compile(r"(?<![\d.])(\d{4}\.\d{4,5})(?!\d|\.\d)")
AUTHORS = re.compile(r"([A-ZÀ-Þ][\w'’-]*(?:-AI)?(?: (?:&|and|et) [\w'’.-]+\.?)?,? (?:19|20)\d\d)[,:; ]*\(?(?:arXiv )?$")
"""Who, and when, right before the number: `Su et al. 2021, arXiv `."""


@dataclass(frozen=True)
class CitedPaper:
    """A paper of arXiv by its number; `said`: its authors and year as the text names them, else its number."""

    arxiv: str
    said: str

    @property
    def url(self) -> str:
        return f"https://arxiv.org/abs/{self.arxiv}"


def papers(text: str) -> tuple[CitedPaper, ...]:
    """The papers that a text names, each once."""
    return tuple({paper.arxiv: paper for paper in reversed(list(_named(" ".join(text.split()))))}.values())[::-1]


def _named(text: str) -> Iterator[CitedPaper]:
    for found in NUMBER.finditer(text):
        month = int(found[1][2:4])
        if 1 <= month <= 12:
            before = AUTHORS.search(text[: found.start()])
            yield CitedPaper(found[1], before[1] if before else f"arXiv {found[1]}")
