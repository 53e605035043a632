"""Where a file of the repository stands in the site, and the links of a page rewritten to it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

NAMED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing/index.md", "CHANGELOG.md": "contributing/changelog.md"}
"""Pages of the repository's root."""
SHOWN = {".py": "python", ".toml": "toml", ".jinja": "jinja"}
"""Files that are shown on a page of their own, and the language that they are coloured as; others are copied."""
CODE = re.compile(r"^(```|~~~).*?^\1\s*?$|(`+)(?!`).+?(?<!`)\2(?!`)", re.S | re.M)
"""Blocks and spans of code, where nothing is a link."""
HIDDEN = re.compile(r"\0(\d+)\0")
LINK = re.compile(r"(?P<text>!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^)\s]+)\)")
COMMENT = re.compile(r"^<!--.*?-->\n", re.S | re.M)
LIST = re.compile(r"^(?P<line>(?!\s*(?:[-*+]|\d+\.) )(?!\s*$)(?![ ]{2}|\t|#).+)\n(?=(?:[-*+]|\d+\.) )", re.M)
"""A paragraph's last line before a list: the site's Markdown wants an empty line between them."""


def place(path: str) -> str:
    """The place in the site of a file of the repository; both with slashes, from their roots."""
    file = PurePosixPath(path)
    if path in NAMED:
        return NAMED[path]
    if file.name == "ADDING.md":
        return f"contributing/adding/{'-'.join(file.parent.parts[2:])}.md"
    if file.suffix == ".ipynb":
        return str(PurePosixPath(*file.parts[1:]).with_suffix(".md"))
    if file.suffix in SHOWN:
        return f"source/{path}.md"
    if file.name == "README.md":
        return str(PurePosixPath(*file.parent.parts[file.parts[0] == "docs" :]) / "index.md")
    if file.parts[0] == "docs":
        return str(PurePosixPath(*file.parts[1:]))
    return path


def relative(target: str, page: str) -> str:
    """The link from a page of the site to another place in it."""
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def rewritten(text: str, path: str, names: Mapping[str, str], seen: Callable[[str], None]) -> str:
    """The text of the page at `path` as the site holds it; `seen` hears of every file that it links to.

    `names`: of public classes and functions, the identifier in the reference; a link to the code of one, whose words are its name,
    goes to the reference instead.
    """
    here = posixpath.dirname(path)

    kept: list[str] = []

    def hide(code: re.Match[str]) -> str:
        kept.append(code[0])
        return f"\0{len(kept) - 1}\0"

    def shown(text: str) -> str:
        return HIDDEN.sub(lambda hidden: kept[int(hidden[1])], text)

    def moved(link: re.Match[str]) -> str:
        words, target = shown(link["text"]), link["target"]
        file, _, anchor = target.partition("#")
        if not file or ":" in file:
            return link[0]
        pointed = posixpath.normpath(posixpath.join(here, file))
        if pointed.endswith(".py") and (known := names.get(words.strip("[]`"))):
            return f"{words}[{known}]"
        seen(pointed)
        moved_to = relative(place(pointed), place(path))
        return f"{words}({moved_to}{'#' if anchor else ''}{anchor})"

    prose = LIST.sub(r"\g<line>\n\n", COMMENT.sub("\n", CODE.sub(hide, text)))
    return shown(LINK.sub(moved, prose))
