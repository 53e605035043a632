"""Diagrams as SVG for a page: the same shapes at the same places, and a path of the description in whatever opens."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from anyformer.catalogue import architecture
from anyformer.describe import get
from anyformer.pictures import diagram
from anyformer.pictures.diagram.shapes import Box, Cells, Drawing, Mark, Polyline, TextLine
from anyformer.pictures.diagram.svg import svg

NAMES = ("gemma-3-27b", "transformer-base", "deepseek-v3", "t5-11b", "whisper-tiny", "perceiver-imagenet", "llava-1.5-7b")
TAG = "{http://www.w3.org/2000/svg}"


def drawn(*names):
    return diagram({name: architecture(name) for name in names})


@pytest.fixture(scope="module", params=NAMES)
def picture(request):
    drawing = drawn(request.param)
    return request.param, drawing, ElementTree.fromstring(svg(drawing))


def test_every_shape_is_drawn_once_at_its_place(picture):
    _, drawing, root = picture
    kinds = {kind: [shape for shape in drawing.shapes if isinstance(shape, kind)] for kind in (Box, TextLine, Polyline, Mark)}
    boxes = [
        (float(r.get("x")), float(r.get("y")), float(r.get("width")), float(r.get("height"))) for r in root.iter(f"{TAG}rect")
    ]
    wanted = [(box.x, drawing.height - box.y - box.height, box.width, box.height) for box in kinds[Box]]
    assert sorted(boxes) == sorted(tuple(round(side, 2) for side in box) for box in wanted)
    words = [(each.text, float(each.get("x"))) for each in root.iter(f"{TAG}text")]
    assert sorted(words) == sorted((line.says, round(line.x, 2)) for line in kinds[TextLine])
    lines = [path for path in root.iter(f"{TAG}path") if path.get("class") in ("wire", "stream")]
    heads = [path for path in root.iter(f"{TAG}path") if path.get("class") == "head"]
    assert len(lines) == len(kinds[Polyline])
    assert len(heads) == sum(line.arrow for line in kinds[Polyline])
    assert len([*root.iter(f"{TAG}circle")]) == len(kinds[Mark])


def test_no_arrow_head_leaves_its_line():
    """Its tip is the line's end, its middle lies before it, on the line."""
    root = ElementTree.fromstring(svg(Drawing(50, 40, (Polyline(((10, 5), (10, 30)), arrow=True),))))
    line, head = (next(path for path in root.iter(f"{TAG}path") if path.get("class") == name) for name in ("wire", "head"))
    (_, low), (x, high) = re.findall(r"([\d.]+) ([\d.]+)", line.get("d"))
    tip, *corners = [(float(a), float(b)) for a, b in re.findall(r"([\d.]+) ([\d.]+)", head.get("d"))]
    assert tip == (10, 10)
    assert (float(low), float(x)) == (35, 10)
    assert 10 < float(high) < 35
    assert sorted(corners) == [(10 - 1.7, 13.2), (10 + 1.7, 13.2)]


def test_every_path_names_a_part_of_the_description(picture):
    name, _, root = picture
    made = architecture(name)
    groups = [group for group in root.iter(f"{TAG}g") if group.get("data-part")]
    for group in groups:
        assert get(made, group.get("data-part")) is not None
    reached = [group.get("data-part") for group in groups if group.get("role") == "button"]
    assert len(reached) == len(set(reached))
    assert set(reached) == {group.get("data-part") for group in groups}


def test_every_sublayer_norm_embedding_and_head_opens():
    root = ElementTree.fromstring(svg(drawn("gemma-2-2b")))
    parts = {group.get("data-part") for group in root.iter(f"{TAG}g")} - {None}
    norms = [f"norm_{side}" for side in ("before", "after")]
    branches = [f"decoder.{kind}.{branch}" for kind in ("local", "global") for branch in ("attention", "feedforward")]
    inside = [f"{branch}.{norm}" for branch in branches for norm in norms]
    outside = ("decoder.local", "decoder.global", "embedding", "decoder.final_norm", "head")
    assert parts == {*branches, *inside, *outside}


def test_side_by_side_what_differs_has_a_class():
    root = ElementTree.fromstring(svg(drawn("llama-3-8b", "qwen3-8b")))
    assert [each for each in root.iter() if "differs" in (each.get("class") or "").split()]


def test_a_title_is_text_and_never_markup():
    odd = "<script>alert(\"1\")</script> & 'x'"
    text = svg(diagram({odd: architecture("gpt2")}))
    assert "<script" not in text
    assert odd in {each.text for each in ElementTree.fromstring(text).iter(f"{TAG}text")}


def test_nothing_needs_inline_style_or_script():
    """What a strict Content-Security-Policy refuses."""
    for name in ("gemma-2-2b", "deepseek-v3"):
        assert not re.search(r"<style|style=|<script|\son\w+=|href=|url\(", svg(drawn(name)))


def test_cells_are_strokes():
    root = ElementTree.fromstring(svg(Drawing(20, 10, (Cells(0, 0, 20, 5, 1, (0, 1, 0, 1), "tick"),))))
    strokes = [path for path in root.iter(f"{TAG}path") if path.get("class") == "cells"]
    assert [path.get("d").count("M") for path in strokes] == [2, 2]
