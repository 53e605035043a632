"""The navigation of the site: lines of mkdocs.yml that stand for a folder, written out, and pages that no line names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

FOLDER = re.compile(r"^(?P<indent> *)- (?P<folder>[\w/-]+)/\*$", re.M)
NAMED = re.compile(r"[\w/.-]+\.md$", re.M)
UNLISTED = ("source/", "404")
"""Pages that are linked to, and stand in no list."""


def filled(settings: str, titles: dict[str, str]) -> str:
    """The settings with every folder written out; `titles`: of every page by its address.

    A page that stands in no list is an error: nobody would find it.
    """
    named = set(NAMED.findall(settings))

    def lines(line: re.Match[str]) -> str:
        folder = line["folder"]
        inside = sorted(path for path in titles if path.rpartition("/")[0] == folder and path not in named)
        below = sorted(path for path in titles if path.startswith(f"{folder}/") and path not in named)
        chosen = [path for path in (below if folder == "studies" else inside)]
        named.update(chosen)
        return "\n".join(f'{line["indent"]}- "{_plain(titles[path])}": {path}' for path in _index_first(chosen))

    text = FOLDER.sub(lines, settings)
    if lost := [path for path in titles if path not in named and not path.startswith(UNLISTED)]:
        raise SystemExit(f"mkdocs.yml: no line of `nav` leads to {', '.join(sorted(lost))}: add one")
    return text


def _index_first(paths: Iterable[str]) -> list[str]:
    return sorted(paths, key=lambda path: not path.endswith("/index.md"))


def _plain(title: str) -> str:
    """A title without marks of Markdown and without remarks, to be quoted in YAML."""
    title = re.sub(r" \([^()]*\)$", "", title)
    return re.sub(r"[`*]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)).replace("\\", "").replace('"', "'")


def title_of(text: str, path: str) -> str:
    """The first heading of a page."""
    found = re.search(r"^# (.+)$", text, re.M)
    if found is None:
        raise SystemExit(f"{path}: a page needs a heading `# ...`")
    return found[1]


def titles_in(pages: Path) -> Iterator[tuple[str, str]]:
    """Every page below a directory by its address, and its title."""
    for file in sorted(pages.rglob("*.md")):
        path = file.relative_to(pages).as_posix()
        yield path, title_of(file.read_text(encoding="utf-8"), path)
