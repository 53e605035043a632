"""Words of the field in `anyformer help`: by the glossary, else by the paragraphs of the guides that use them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from anyformer import atlas
from anyformer.cli.help_topic import PASSAGES, HelpTopic
from anyformer.cli.pages import Item, Paragraph
from anyformer.costs.rows import PageLine

SHOWN = 3
"""Paragraphs of guides that are printed for a word which has no topic of its own."""
PAGES = 4
"""Sections of guides that a page names to read on."""
FIRST = 60
"""Letters at the beginning of a paragraph in which its subject stands."""


@dataclass(frozen=True)
class Passage:
    """A paragraph of a guide, below a heading; the first ones stand below the guide's title."""

    guide: str
    heading: str
    text: str

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"docs/{self.guide}.md: {self.heading}"


def words() -> list[str]:
    """Every word that the glossary explains."""
    return [name for entry in atlas.glossary() for name in entry.names]


def explained(word: str) -> list[HelpTopic]:
    """The glossary's entry of a word in any spelling, in the singular or plural; none if there is none."""
    return [_entry(word, each) for each in atlas.explained(word)]


def used(word: str) -> list[HelpTopic]:
    """What the guides say of a word: the paragraphs most about it, and where others stand; none if no guide has it."""
    found = passages_with(word)
    if not found:
        return []
    page: list[Item] = []
    for passage in found[:SHOWN]:
        page += [PageLine(passage.place, strong=True), Paragraph(passage.text, "  ", "  "), PageLine("")]
    others = _places(found[SHOWN:], without={each.place for each in found[:SHOWN]})
    more = f"Also in {'; '.join(others)}." if others else f"More in {found[0].place}."
    return [HelpTopic(word, f"{word}, in the guides", tuple(page), more)]


def passages_with(word: str) -> list[Passage]:
    """The paragraphs that have a word, those most about it first.

    Before others go those below a heading that has it, then those that begin with it, then those that have it most often.
    """
    parts = _parts(word)
    if not parts:
        return []
    phrase = _phrase(parts)
    near = [each for each, lower in _passages() if all(part in lower for part in parts)]  # ten times as fast as the pattern
    counted = [(each, len(phrase.findall(each.text)), bool(phrase.search(each.heading))) for each in near]
    having = [one for one in counted if one[1]]
    having.sort(key=lambda one: (not one[2], not phrase.search(one[0].text[:FIRST]), -one[1]))
    return [each for each, _, _ in having]


def _parts(word: str) -> list[str]:
    """The letters and digits of a word between its other signs, in lower case; the last in the singular."""
    *before, last = re.findall(r"[^\W_]+", word.lower()) or [""]
    return [*before, last.removesuffix("s") or last] if last else []


def _phrase(parts: list[str]) -> re.Pattern[str]:
    """A word in any case and in the plural, with anything of two signs between its parts."""
    joined = r"[\W_]{0,2}".join(map(re.escape, parts)) + "(?:s|es)?"
    return re.compile(rf"(?<![^\W_]){joined}(?![^\W_])", re.I)


@cache
def _passages() -> tuple[tuple[Passage, str], ...]:
    """Every paragraph, and its text in lower case."""
    read = [Passage(*each) for each in json.loads(PASSAGES.read_text(encoding="utf-8"))]
    return tuple((each, each.text.lower()) for each in read)


def _entry(word: str, entry: atlas.GlossaryEntry) -> HelpTopic:
    names = entry.names
    page = Paragraph(f"{', '.join(names)}: {entry.text}", hanging="")
    others = _places(passages_with(word), without={entry.place})
    more = f"More in {entry.place}" + (f"; also in {'; '.join(others)}." if others else ".")
    return HelpTopic(names[0], names[0], (page, PageLine("")), more)


def _places(passages: Iterable[Passage], without: set[str]) -> list[str]:
    return [place for place in dict.fromkeys(each.place for each in passages) if place not in without][:PAGES]
