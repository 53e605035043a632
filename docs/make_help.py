"""Writes `src/anyformer/cli/topics.json`, from which `anyformer help TOPIC` prints: beginnings of guides, and mechanisms; the
paragraphs of the guides beside it; and the glossary, which the explorer's search reads too.

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

from make_parts import MECHANISMS, Mechanism

GUIDES = Path(__file__).parent
TOPICS = Path(__file__).parents[1] / "src" / "anyformer" / "cli" / "topics.json"
TABLES = tuple(GUIDES / "reference" / f"{name}.md" for name in ("costs", "formats", "run", "study"))
"""Pages to look things up, whose rows are passages as those of the guides are."""
LONG = 4
"""Words of a cell that says something; other rows are figures."""
PASSAGES = TOPICS.with_name("passages.json")
GLOSSARY = TOPICS.parents[1] / "atlas" / "glossary.json"
LEFT_OUT = ("performance", "published", "shapes", "gpu")
"""Guides that are measurements and no instructions."""
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.S | re.M)
MADE = re.compile(r"<!-- (.+?) -->.*?<!-- end of \1 -->", re.S)
ENTRY = re.compile(r"^- (\*\*.+?\*\*): (.+?) \[[^\]]+\]\(([\w./-]+)\.md(?:#([\w-]+))?\)$", re.M)
"""An entry of the glossary: its names, what it is, and the page to read on."""
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")


def topics() -> dict[str, Any]:
    """Guides by name, and mechanisms by their names in papers: the part, and how it is asked for."""
    pages = _pages()
    named = {each.name: each for each in MECHANISMS}
    noted = _noted()
    sections = {title: rows[0] for title, rows in noted.items() if len(rows) == 1}
    taken = {_initials(name) for name in (*named, *sections) if _initials(name) != _letters(name)} | set(map(_letters, named))
    for section, each in sections.items():
        if _letters(section) not in taken:
            named[section] = each
            taken.add(_letters(section))
    mechanisms = {
        name: [_where(each), each.how]
        for name, each in named.items()
        if not each.where.startswith("anyformer.catalogue") and _letters(name) != _letters(each.where)
    }
    guides = {page.stem: guide(page.read_text(encoding="utf-8")) for page in pages}
    listed = {
        title: [[row.name, row.where.rpartition(":")[2], row.how] for row in {row.name: row for row in rows}.values()]
        for title, rows in noted.items()
        if len(rows) > 1
    }
    return {"guides": guides, "mechanisms": mechanisms, "sections": listed}


def _noted() -> dict[str, list[Mechanism]]:
    """The sections of the notes by their titles, equal ones together, with their rows."""
    titles, rows = dict[str, str](), dict[str, list[Mechanism]]()
    for each in MECHANISMS:
        title = re.sub(r"^[\d.]+ ", "", each.section)
        rows.setdefault(titles.setdefault(_letters(title), title), []).append(each)
    return rows


def _where(mechanism: Mechanism) -> str:
    return mechanism.where if ":" in mechanism.where else f"anyformer.parts:{mechanism.where}"


def glossary() -> list[dict[str, Any]]:
    """The entries of the glossary: names, what they mean, and the place to read on."""
    text = (GUIDES / "glossary.md").read_text(encoding="utf-8")
    return [
        {"names": re.findall(r"\*\*(.+?)\*\*", names), "text": meaning, "place": _place(page, anchor)}
        for names, meaning, page, anchor in ENTRY.findall(text)
    ]


def passages() -> list[list[str]]:
    """Every paragraph and row of the guides, by page and heading; not of the glossary, whose entries are topics."""
    found = [
        (page.relative_to(GUIDES).with_suffix("").as_posix(), _plain(heading), text)
        for page in (*_pages(), *TABLES)
        if page.stem != "glossary"
        for heading, body in _sections(page.read_text(encoding="utf-8"), made=page in TABLES)
        for text in (*_said(body), *_rows(body))
    ]
    first = {(page, text): heading for page, heading, text in reversed(found)}
    return [[page, heading, text] for (page, text), heading in reversed(first.items())]


def _said(text: str) -> Iterator[str]:
    """Paragraphs, and the items of lists."""
    apart = re.sub(r"^(?:- |\d+\. )", r"\n", text, flags=re.M)
    return (text for kind, text in _items(apart) if kind == "text")


def _rows(text: str) -> Iterator[str]:
    """The rows of tables that say something: the first cell, and the others that are words."""
    for line in re.findall(r"^\| (.+) \|$", BLOCK.sub("", text), re.M):
        first, *others = (_plain(cell) for cell in re.split(r"(?<!\\) \| ", line))
        if said := [cell for cell in others if len(cell.split()) >= LONG]:
            yield f"{first}: {'; '.join(said)}"


def _pages() -> list[Path]:
    return [page for page in sorted(GUIDES.glob("*.md")) if page.stem not in LEFT_OUT]


def _sections(text: str, made: bool = False) -> Iterator[tuple[str, str]]:
    """Headings and what is below them; `made`: also what a command wrote."""
    title, _, rest = text.removeprefix("# ").partition("\n")
    parts = re.split(r"^##+ (.+)$", rest if made else MADE.sub("", rest), flags=re.M)
    yield title, parts[0]
    yield from zip(parts[1::2], parts[2::2], strict=True)


def _place(page: str, anchor: str) -> str:
    """A page and the heading of an anchor, as passages name them."""
    headings = [heading for heading, _ in _sections((GUIDES / f"{page}.md").read_text(encoding="utf-8"))]
    (found,) = [each for each in headings if _anchor(each) == anchor] if anchor else headings[:1]
    return f"docs/{page}.md: {_plain(found)}"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


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


def made() -> dict[Path, str]:
    """The files."""
    found = {TOPICS: topics(), PASSAGES: passages(), GLOSSARY: glossary()}
    return {path: json.dumps(each, indent=1, ensure_ascii=False) + "\n" for path, each in found.items()}


if __name__ == "__main__":
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")
