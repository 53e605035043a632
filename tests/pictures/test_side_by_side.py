"""Diagrams side by side: what differs is marked, and nothing else."""

from __future__ import annotations

import pytest

from anyformer.catalogue import architecture
from anyformer.describe import change_all
from anyformer.pictures import diagram
from anyformer.pictures.diagram.shapes import Box, Cells, TextLine
from pictures.geometry import faults, texts


def drawn(*names):
    return diagram({name: architecture(name) for name in names})


def marked(drawing):
    return {shape.says for shape in drawing.shapes if isinstance(shape, Box | TextLine) and shape.differs}


def test_side_by_side_what_differs_is_marked_and_the_same_stands_at_the_same_height():
    drawing = drawn("llama-3-8b", "qwen3-8b")
    assert faults(drawing) == []
    said = {words for words in marked(drawing) if words in texts(drawing)}
    assert {"rotary θ 500,000", "rotary θ 1,000,000", "QK-norm", "gate 14,336", "gate 12,288", "× 32", "× 36"} <= said
    assert not said & {"RMSNorm", "SiLU", "Q 32 × 128", "Feed-forward, SwiGLU", "decoder-only", "width 4,096"}
    for title in ("Grouped-query attention", "Feed-forward, SwiGLU"):
        left, right = [shape for shape in drawing.shapes if isinstance(shape, Box) and shape.says == title]
        assert (left.y, left.height) == (right.y, right.height)


def test_two_equal_architectures_have_nothing_marked():
    gpt2 = architecture("gpt2")
    drawing = diagram({"one": gpt2, "two": gpt2})
    assert marked(drawing) == set()
    assert "nothing differs" in texts(drawing)
    assert not [shape for shape in drawing.shapes if isinstance(shape, Box) and shape.tone == "differs"]


@pytest.mark.parametrize("order", ["layer*6", "layer*13"])
def test_the_colour_of_the_legend_occurs_where_an_order_alone_changed(order):
    """Only text was brown, and the legend showed a colour that was nowhere."""
    gpt2 = architecture("gpt2")
    drawing = diagram({"one": gpt2, "two": change_all(gpt2, {"decoder.order": order})})
    assert faults(drawing) == []
    *behind, legend = [shape for shape in drawing.shapes if isinstance(shape, Box) and shape.tone == "differs"]
    assert texts(drawing)[-1] == "what differs"
    assert legend.y == 16
    for words in (shape for shape in drawing.shapes if isinstance(shape, TextLine) and shape.differs):
        assert any(box.y <= words.y <= box.y + box.height and box.x <= words.extent[0] for box in behind), words


def test_an_order_with_equal_counts_is_seen_in_the_strip():
    gemma = architecture("gemma-3-27b")
    moved = change_all(gemma, {"decoder.order": "global " + "local*52 " + "global*9"})
    other = change_all(gemma, {"decoder.order": "global*2 " + "local*52 " + "global*8"})
    drawing = diagram({"one": moved, "two": other})
    strips = [shape for shape in drawing.shapes if isinstance(shape, Cells) and shape.tone == "strip"]
    assert all(strip.differs for strip in strips)
    assert len(strips) == 2


def test_a_kind_is_held_against_the_other_kinds_of_its_place():
    said = marked(drawn("llama-3-8b", "gemma-3-27b"))
    assert "softmax · causal" in {shape.says for shape in drawn("llama-3-8b").shapes if isinstance(shape, TextLine)}
    assert "RMSNorm" in said, "of the norms after a sublayer"
    same = change_all(architecture("gemma-3-27b"), {"decoder.global.attention.mask.kind": "causal"})
    assert marked(diagram({"one": architecture("gemma-3-27b"), "two": same})) == set()
