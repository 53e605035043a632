"""What a built site would break on: links and pictures that lead nowhere, anchors that no page has, and anything fetched from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"src", "srcset", "poster", "data"}
"""Attributes whose address a browser fetches by itself."""


@dataclass
class _Page(HTMLParser):
    identifiers: set[str] = field(default_factory=set)
    links: list[tuple[str, bool]] = field(default_factory=list)
    """Addresses, and whether a browser fetches them by itself."""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.identifiers.add(value)
            elif name in FETCHED and value:
                self.links.append((value, True))
            elif name == "href" and value:
                self.links.append((value, tag == "link"))


def faults(site: Path) -> Iterator[str]:
    """A line per fault of the pages below a directory."""
    pages = {file: _read(file) for file in sorted(site.rglob("*.html"))}
    for file, page in pages.items():
        where = file.relative_to(site)
        for address, fetched in page.links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if fetched and parts.scheme not in ("data", "blob"):
                    yield f"{where}: {address} is fetched from elsewhere"
                continue
            if file.name == "404.html":  # its links begin at the root of whichever host serves it
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                yield f"{where}: {address} leads to no file"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].identifiers:
                yield f"{where}: {address}: {target.relative_to(site)} has no such anchor"


def _read(file: Path) -> _Page:
    page = _Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page
