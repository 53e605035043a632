"""Diagrams as TikZ: the text is one that LaTeX takes, every name in it is defined, and it draws the same shapes."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from zoo import ZOO

from anyformer.catalogue import architecture
from anyformer.pictures import diagram
from anyformer.pictures.diagram.shapes import Box, Polyline, TextLine
from anyformer.pictures.diagram.tikz import escaped, tikz

NAMES = ("gpt2", "gemma-3-27b", "t5-11b", "deepseek-v3", "qwen3-next-80b-a3b")
ODD = r"50% of {A_1} & #2 \end{document} $x^2$ ~ <a|b> \"quoted\""


def drawn(*names, compact=False):
    return diagram({name: architecture(name) for name in names}, compact=compact)


@pytest.fixture(scope="module", params=[*((name,) for name in NAMES), ("llama-3-8b", "qwen3-8b")], ids="+".join)
def text(request):
    return tikz(drawn(*request.param))


def balanced(text):
    depth = 0
    for letter in re.sub(r"\\.", "", text):
        depth += (letter == "{") - (letter == "}")
        assert depth >= 0
    return depth == 0


def test_braces_and_environments_are_balanced(text):
    assert balanced(text)
    assert re.findall(r"\\(begin|end)\{(\w+)\}", text) == [
        ("begin", "document"), ("begin", "tikzpicture"), ("end", "tikzpicture"), ("end", "document"),
    ]  # fmt: skip
    body = text[text.index(r"\begin{tikzpicture}") :].splitlines()[1:-2]
    assert all(line.startswith(("\\path[", "\\node[")) and line.endswith(";") for line in body)


def test_every_style_and_colour_is_defined(text):
    styles = set(re.findall(r"^  (af [^/]+)/\.style=", text, re.M))
    used = {option for options in re.findall(r"^\\(?:path|node)\[([^\]]*)\]", text, re.M) for option in options.split(", ")}
    assert {option for option in used if option.startswith("af ")} <= styles
    colours = set(re.findall(r"\\definecolor\{(\w+)\}", text))
    assert set(re.findall(r"(?:fill|draw|text)=(\w+)", text)) - {"white"} <= colours


def test_only_ascii_is_written_and_every_special_letter_escaped():
    """Letters that pdflatex does not know would stop it."""
    for name in NAMES:
        assert tikz(drawn(name)).isascii()
    text = tikz(diagram({ODD: ZOO["llama"]}))
    assert balanced(text)
    assert text.count(r"\end{document}") == 1
    said = escaped(ODD)
    assert not re.search(r"(?<!\\)[%&#_]", said)
    assert escaped("a_b & 5 %") == r"a\_b \& 5 \%"


def test_the_same_shapes_are_drawn():
    drawing = drawn("t5-11b", compact=True)
    text = tikz(drawing)
    counts = {kind: sum(isinstance(shape, kind) for shape in drawing.shapes) for kind in (Box, TextLine, Polyline)}
    assert text.count("rectangle") == counts[Box] + 1, "and the page"
    assert text.count(r"\node[") == counts[TextLine]
    arrows = sum(isinstance(shape, Polyline) and shape.arrow for shape in drawing.shapes)
    assert text.count(", af arrow]") == arrows
    order = [
        next(i for i, line in enumerate(text.splitlines()) if mark in line) for mark in ("[af frame]", "[af norm]", r"\node[")
    ]
    assert order == sorted(order), "frames behind boxes behind words"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here; the tests above hold the text")
@pytest.mark.parametrize("compact", [False, True])
def test_latex_takes_it(tmp_path, compact):
    # `standalone` is not in every installation, and decides on nothing but the size of the page.
    text = tikz(diagram({ODD: architecture("gemma-3-27b")}, compact=compact))
    text = text.replace(r"\documentclass[tikz]{standalone}", "\\documentclass{article}\n\\usepackage{tikz}")
    if not subprocess.run(["kpsewhich", "lmodern.sty"], capture_output=True, check=False).stdout:
        text = text.replace("\\usepackage{lmodern}\n", "")
    (tmp_path / "it.tex").write_text(text)
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "it.tex"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:].decode(errors="replace")
    assert (tmp_path / "it.pdf").read_bytes().startswith(b"%PDF")
