"""CONTRIBUTING and the pages about adding something: short, all reached, and their examples are lines of the code as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "CONTRIBUTING.md"
PAGES = sorted((ROOT / "src").rglob("ADDING.md"))
MOST, MOST_OF_GUIDE = 200, 1000
BLOCK = re.compile(r"^```\w*\n.*?^```$", re.S | re.M)
TABLE = re.compile(r"^\|.*$", re.M)


def test_the_guide_is_short_and_leads_to_every_page():
    text = GUIDE.read_text(encoding="utf-8")
    assert len(text.split()) <= MOST_OF_GUIDE
    linked = {(ROOT / target).resolve() for target in re.findall(r"\]\(([^)#:]+)\)", text)}
    assert set(PAGES) <= linked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.parent.relative_to(ROOT / "src" / "anyformer")))
def test_a_page_is_short_and_its_example_real(page):
    text = page.read_text(encoding="utf-8")
    assert len(TABLE.sub("", BLOCK.sub("", text)).split()) <= MOST
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target
    for name in re.findall(r"`((?:tests|docs|recipes|benchmarks)/[\w/.]+)`", text):
        assert (ROOT / name).exists(), name
    shown, source = 0, ""
    for line in "\n".join(re.findall(r"^```diff\n(.*?)^```$", text, re.S | re.M)).splitlines():
        if line.startswith("+++ "):
            source = (ROOT / line[4:]).read_text(encoding="utf-8")
        else:
            assert line.startswith("+"), line
            assert line[1:] in source, line
            shown += 1
    assert shown or TABLE.search(text), "a page shows what it says"
