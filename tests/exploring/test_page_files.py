"""The page's files: every one they name is there, none is of elsewhere, none is long, and all together are small."""

from __future__ import annotations

import re

import pytest

from anyformer.exploring.server import PAGE

MODULES = sorted(PAGE.glob("*.js"))
TEXTS = sorted(path for path in PAGE.iterdir() if path.suffix in (".js", ".css", ".html"))
LONGEST, BYTES = 300, 300_000
NAMED = re.compile(r"""(?:\bfrom |\bimport\(|^import )["'](?P<module>[^"'\n]+)["']|(?:href|src)="(?P<file>\./[^"#]+)\"""", re.MULTILINE)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_file_that_one_names_is_there(path):
    for found in NAMED.finditer(path.read_text("utf-8")):
        named = found["module"] or found["file"]
        if named != "./":
            assert named.startswith("./"), named
            assert (PAGE / named).is_file(), named


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_nothing_is_asked_of_elsewhere_and_nothing_stands_in_line(path):
    text = path.read_text("utf-8")
    # Links, which a person follows, and names of XML are no requests.
    hosts = set(re.findall(r"https?://([\w.-]+)", text))
    assert hosts <= {"arxiv.org", "doi.org", "github.com", "www.w3.org"}
    assert not re.search(r"url\(|@import|@font-face|\beval\(|new Function|innerHTML|style=", text)
    assert path.suffix != ".html" or not re.search(r"<script(?![^>]*src=)|<style|\son\w+=", text)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_is_short(path):
    assert len(path.read_text("utf-8").splitlines()) <= LONGEST


def test_all_together_are_small():
    assert sum(path.stat().st_size for path in TEXTS) < BYTES
