"""Writes `src/anyformer/cli/topics.json`, from which `anyformer help TOPIC` prints: beginnings of guides, and mechanisms.

python docs/make_help.py

The short form of a guide is its own beginning, until its first heading; one that begins without a sentence gets its first part
too, and one that begins without a command its first one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from make_parts import MECHANISMS

GUIDES = Path(__file__).parent
TOPICS = Path(__file__).parents[1] / "src" / "anyformer" / "cli" / "topics.json"
LEFT_OUT = ("performance", "published", "shapes", "gpu")
"""Guides that are measurements and no instructions."""
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.S | re.M)
MADE = re.compile(r"<!-- (.+?) -->.*?<!-- end of \1 -->", re.S)
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")


def topics() -> dict[str, Any]:
    """Guides by name, and mechanisms by their names in papers: the part, and how it is asked for."""
    pages = [page for page in sorted(GUIDES.glob("*.md")) if page.stem not in LEFT_OUT]
    named = {each.name: each for each in MECHANISMS}
    sections = {re.sub(r"^[\d.]+ ", "", each.section): each for each in reversed(MECHANISMS)}
    taken = {_initials(name) for name in (*named, *sections) if _initials(name) != _letters(name)} | set(map(_letters, named))
    for section, each in sections.items():
        if _letters(section) not in taken:
            named[section] = each
            taken.add(_letters(section))
    mechanisms = {
        name: [each.where if ":" in each.where else f"anyformer.parts:{each.where}", each.how]
        for name, each in named.items()
        if not each.where.startswith("anyformer.catalogue") and _letters(name) != _letters(each.where)
    }
    return {"guides": {page.stem: guide(page.read_text(encoding="utf-8")) for page in pages}, "mechanisms": mechanisms}


def _initials(name: str) -> str:
    """Those of several words; of one it is the word itself."""
    found = re.findall(r"[a-z0-9]+", name.lower())
    return "".join(word[0] for word in found) if len(found) > 1 else _letters(name)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def guide(text: str) -> dict[str, Any]:
    """The title of a guide, its beginning as paragraphs and code, and its sections."""
    title, _, rest = text.removeprefix("# ").partition("\n")
    beginning, *parts = re.split(r"^## .+$", MADE.sub("", rest), flags=re.M)
    items = list(_items(beginning))
    if parts and not any(kind == "text" for kind, _ in items):
        items += _items(parts[0])
    if not any(kind == "code" for kind, _ in items):
        items += [("code", block) for block in BLOCK.findall(rest) if block.lstrip("$ ").startswith("anyformer ")][:1]
    sections = re.findall(r"^## (.+)$", BLOCK.sub("", rest), re.M)
    return {"title": title, "short": items, "sections": [_plain(each) for each in sections]}


def _items(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    for block in BLOCK.finditer(text):
        yield from _paragraphs(text[at : block.start()])
        yield "code", block[1]
        at = block.end()
    yield from _paragraphs(text[at:])


def _paragraphs(text: str) -> Iterator[tuple[str, str]]:
    """Paragraphs but tables and pictures, and what announces a table."""
    found = [each.strip() for each in re.split(r"\n\s*\n", text) if each.strip()]
    for paragraph, following in zip_longest(found, found[1:], fillvalue=""):
        if not paragraph.startswith(("|", "!")) and not (paragraph.endswith(":") and following.startswith("|")):
            yield "text", " ".join(_plain(paragraph).split())


def _plain(text: str) -> str:
    """Words without marks of links and emphasis; code keeps its quotes."""
    return LINK.sub(r"\1", text).replace("**", "")


def made() -> str:
    """The file."""
    return json.dumps(topics(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TOPICS.write_text(made(), encoding="utf-8")
