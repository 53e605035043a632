"""The site of the documents: every page has its place, links lead there, and its checker finds what a browser would miss."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from pathlib import Path

import pytest
from tests.docs.test_pages import headings
from website import catalogue, reference
from website.addresses import place, rewritten
from website.gather import OUTSIDE_SEARCH, gather, own_pages
from website.links import faults
from website.navigation import filled, titles_in

from anyformer.catalogue import listing

ROOT = Path(__file__).parents[2]
SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    """The gathered pages, before they are built."""
    out = tmp_path_factory.mktemp("site") / "pages"
    gather(out)
    return out


def test_every_page_has_one_place(pages):
    own = list(own_pages())
    assert {"README.md", "docs/costs.md", "docs/studies/README.md", "src/anyformer/cli/ADDING.md"} <= set(own)
    assert len({place(path) for path in own}) == len(own)
    assert all((pages / place(path)).is_file() for path in own)


def test_links_of_gathered_pages_lead_to_files_in_the_site(pages):
    for page in pages.rglob("*.md"):
        text = re.sub(r"^(```+).*?^\1|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        for target, anchor in re.findall(r"\]\(([^)#:\s]+)(?:#([^)]*))?\)", text):
            pointed = page.parent / target
            assert pointed.exists(), f"{page.relative_to(pages)}: {target}"
            assert not anchor or pointed.suffix != ".md" or anchor in headings(pointed), (
                f"{page.relative_to(pages)}: {target}#{anchor}"
            )


def test_the_navigation_has_every_page_but_code(pages):
    titles = dict(titles_in(pages))
    listed = re.findall(r"[\w/.-]+\.md$", filled(SETTINGS, titles), re.M)
    assert len(listed) == len(set(listed))
    assert set(listed) == {path for path in titles if not path.startswith("source/")}
    with pytest.raises(SystemExit, match=r"no line of `nav` leads to lost\.md"):
        filled(SETTINGS, titles | {"lost.md": "Lost"})


def test_an_atlas_is_taken_into_the_site(tmp_path):
    atlas = tmp_path / "made"
    atlas.mkdir()
    (atlas / "index.html").write_text("<p>atlas</p>")
    gather(tmp_path / "pages", atlas)
    assert (tmp_path / "pages" / "atlas" / "index.html").read_text() == "<p>atlas</p>"
    titles = dict(titles_in(tmp_path / "pages"))
    assert '- "The atlas": catalogue/atlas.md' in filled(SETTINGS, titles)
    with pytest.raises(SystemExit, match=r"no atlas: it has no index\.html; make one"):
        gather(tmp_path / "others", tmp_path)


def test_code_is_shown_and_stands_in_no_search(pages):
    shown = list((pages / "source").rglob("*.md"))
    assert shown
    assert all(page.read_text(encoding="utf-8").startswith(OUTSIDE_SEARCH) for page in shown)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("README.md", "[a](docs/costs.md#six)", "[a](costs.md#six)"),
        ("README.md", "![a](docs/pictures/x.svg)", "![a](pictures/x.svg)"),
        ("docs/reference/parts.md", "[a](../../recipes/x.toml)", "[a](../source/recipes/x.toml.md)"),
        ("docs/reference/parts.md", "[`RMSNorm`](../../src/anyformer/n.py)", "[`RMSNorm`][anyformer.parts.RMSNorm]"),
        ("docs/compare.md", "[a](studies/README.md)", "[a](studies/index.md)"),
        ("docs/start.md", "[a](notebooks/look-inside.ipynb)", "[a](notebooks/look-inside.md)"),
        ("CONTRIBUTING.md", "[cli](src/anyformer/cli/ADDING.md)", "[cli](adding/cli.md)"),
        ("docs/a.md", "`[a](b.py)` and\n```\n[a](b.py)\n```\n", "`[a](b.py)` and\n```\n[a](b.py)\n```\n"),
        ("docs/a.md", "[a](https://x.org/y.md) [b](#c)", "[a](https://x.org/y.md) [b](#c)"),
        ("docs/a.md", "these:\n- one\n- two\n", "these:\n\n- one\n- two\n"),
        ("docs/a.md", "<!-- table -->\n| a |\n", "\n| a |\n"),
    ],
)
def test_links_follow_their_files(path, text, expected):
    assert rewritten(text, path, {"RMSNorm": "anyformer.parts.RMSNorm"}, lambda file: None) == expected


def test_a_link_to_nothing_is_an_error(pages, monkeypatch, tmp_path):
    monkeypatch.setattr(sys.modules["website.gather"], "own_pages", lambda: ["README.md"])
    monkeypatch.setattr(Path, "read_text", lambda self, **given: "# a\n[b](docs/nothing.png)\n")
    with pytest.raises(SystemExit, match=r"README\.md: the link to docs/nothing\.png leads to no file"):
        gather(tmp_path)


def test_every_part_and_objective_is_in_the_reference():
    import anyformer
    from anyformer import objectives, parts
    from anyformer.describe import Value

    shown = {name for page in reference.pages(ROOT / "src") for name in page.names}
    for package in (parts, objectives):
        values = [name for name, each in vars(package).items() if isinstance(each, type) and issubclass(each, Value)]
        assert {f"{package.__name__}.{name}" for name in values} <= shown
    verbs = {name for name in anyformer.__all__ if not inspect.ismodule(getattr(anyformer, name))}
    assert {f"anyformer.{name}" for name in verbs} <= shown


def test_the_catalogue_has_every_entry():
    page = catalogue.page()
    assert all(page.count(f"| `{entry.name}` |") == 1 for entry in listing())


def test_the_checker_finds_what_is_broken(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="here">a</h1><a href="#here">x</a><a href="b.html#there">x</a><a href="https://x.org">x</a><img src="p.png">'
    )
    (tmp_path / "b.html").write_text('<p id="there"></p><a href="a.html">x</a>')
    (tmp_path / "p.png").write_bytes(b"")
    assert list(faults(tmp_path)) == []
    (tmp_path / "b.html").write_text(
        '<a href="c.html">x</a><a href="a.html#gone">x</a><a href="#gone">x</a><script src="https://x.org/y.js"></script>'
        '<link href="//x.org/z.css"><img src="q.png">'
    )
    assert [line.removeprefix("b.html: ") for line in faults(tmp_path)][1:] == [
        "c.html leads to no file",
        "a.html#gone: a.html has no such anchor",
        "#gone: b.html has no such anchor",
        "https://x.org/y.js is fetched from elsewhere",
        "//x.org/z.css is fetched from elsewhere",
        "q.png leads to no file",
    ]


def test_the_page_of_the_start_names_every_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    table = (ROOT / "docs" / "start.md").read_text(encoding="utf-8").partition("| extra |")[2].partition("## Five")[0]
    named = {name for row in re.findall(r"^\| (.+?) \|", table, re.M) for name in re.findall(r"`(\w+)`", row)}
    assert named == set(extras) - {"dev", "mutation"}
