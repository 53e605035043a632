"""Gathers the pages of the site: those of the repository as they are, their links rewritten, and those made from the code."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from website import catalogue, notebooks, reference
from website.addresses import SHOWN, place, rewritten

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
LAST_IN_SEARCH = "---\nsearch:\n  boost: 0.25\n---\n\n"
"""Of reports, which have the same words again and again."""
ATLAS = """# The atlas

[Open the atlas](../atlas/index.html): every entry as a diagram whose values can be changed, a family tree by year and mechanism, trends,
and a page per topic, whose sentences have their sources.
"""
OUTSIDE_SEARCH = "---\nsearch:\n  exclude: true\n---\n\n"


def own_pages() -> Iterator[str]:
    """The repository's pages, by their paths in it."""
    yield from ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
    for where, pattern in (
        ("docs", "**/*.md"),
        ("docs", "notebooks/*.ipynb"),
        ("src", "**/ADDING.md"),
        ("benchmarks", "**/README.md"),
    ):
        yield from sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / where).glob(pattern))


def gather(out: Path, atlas: Path | None = None) -> None:
    """Write every page, and every file that one links to, below an empty directory; and the site of `anyformer atlas --out`, if given.

    Raises:
        SystemExit: a page links to what is not in the repository, or the atlas is none.
    """
    names, linked = reference.identifiers(ROOT / "src"), {}

    def moved(text: str, path: str) -> str:
        return rewritten(text, path, names, lambda file: linked.setdefault(file, path))

    own = list(own_pages())
    for path in own:
        if path.endswith(".ipynb"):
            text = notebooks.text(ROOT / path, out / "notebooks", partial(moved, path=path))
        else:
            text = moved((ROOT / path).read_text(encoding="utf-8"), path)
        _write(out / place(path), LAST_IN_SEARCH * path.endswith("/report.md") + text)
    _beside(out, ((file, page) for file, page in linked.items() if file not in own))
    for page in reference.pages(ROOT / "src"):
        _write(out / page.path, page.text)
    _write(out / "catalogue/index.md", catalogue.page())
    shutil.copytree(HERE / "style", out / "style")
    if atlas is not None:
        if not (atlas / "index.html").is_file():
            raise SystemExit(f"{atlas} is no atlas: it has no index.html; make one by `anyformer atlas --out {atlas}`")
        shutil.copytree(atlas, out / "atlas")
        _write(out / "catalogue/atlas.md", ATLAS)


def _beside(out: Path, linked: Iterable[tuple[str, str]]) -> None:
    """Files that are no pages: code on a page of its own, others as they are."""
    for file, page in linked:
        source = ROOT / file
        if not source.is_file():
            raise SystemExit(f"{page}: the link to {file} leads to no file")
        if source.suffix in SHOWN:
            text = source.read_text(encoding="utf-8").rstrip("\n")
            _write(
                out / place(file), f"{OUTSIDE_SEARCH}# {source.name}\n\n`{file}`\n\n````{SHOWN[source.suffix]}\n{text}\n````\n"
            )
        else:
            target = out / place(file)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
