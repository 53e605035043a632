"""The compact form of diagrams: as wide as a column, in letters that can be read, with all that the full form says."""

from __future__ import annotations

import pytest
from combinations import draw
from zoo import ZOO

from anyformer.catalogue import architecture, listing
from anyformer.pictures import diagram, draw_diagram
from anyformer.pictures.diagram.shapes import Box, Cells, Polyline, TextLine
from covering import others_slow
from pictures.geometry import faults, texts, untouched

INCH = 72
LINEAGES = {entry.lineage: entry.name for entry in listing()}


def compact(*names):
    return diagram({name: architecture(name) for name in names}, compact=True)


def plain(drawing):
    return " ".join(texts(drawing)).replace("\u00a0", " ")


def breaches(drawing):
    words = [shape for shape in drawing.shapes if isinstance(shape, TextLine)]
    return [*faults(drawing), *untouched(drawing), *(f"small: {each}" for each in words if each.size < 7)]


@pytest.mark.parametrize("name", sorted(LINEAGES.values()))
def test_it_is_as_wide_as_a_column_and_nothing_is_cut_or_small(name):
    """Pictures were up to 3,688 pixels wide, in letters of 6 points."""
    drawing = compact(name)
    assert drawing.width == pytest.approx(3.3 * INCH)
    assert breaches(drawing) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [entry.name for entry in listing()])
def test_nothing_is_cut_or_small_in_the_whole_catalogue(name):
    assert breaches(compact(name)) == []


@pytest.mark.parametrize("name", others_slow(ZOO))
def test_every_sublayer_is_named(name):
    drawing = diagram({name: ZOO[name]}, compact=True)
    assert breaches(drawing) == []
    titles = {box.says for box in drawing.shapes if isinstance(box, Box)}
    for stack in ZOO[name].stacks.values():
        for block in stack.variants.values():
            for branch in block.branches.values():
                assert branch.sublayer.sketch(ZOO[name].width).title in titles


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_random_combinations_of_parts_alone_and_side_by_side(seed):
    one, two = draw(seed), draw(seed + 1)
    assert breaches(diagram({"one": one}, compact=True)) == []
    both = diagram({"one": one, "two": two}, compact=True)
    assert breaches(both) == []
    assert both.width < 7 * INCH, "both columns of a paper"


def test_it_says_what_the_cells_of_the_full_form_say():
    said = plain(compact("llama-3-8b"))
    for fact in ("Q 32 × 128", "K 8 × 128", "rotary θ 500,000", "causal", "output 4,096", "gate 14,336", "SiLU", "× 32"):
        assert fact in said


def test_what_was_shown_is_named_and_layers_by_turns_have_their_strip():
    drawing = compact("gemma-3-27b")
    said = plain(drawing)
    assert "layers 0 – 61 by turns: (5 local, 1 global) × 10, then 2 local" in said
    assert "as in local" in said
    (strip,) = [shape for shape in drawing.shapes if isinstance(shape, Cells)]
    assert (strip.rows, len(strip.shades), strip.shades[:6]) == (1, 62, (0, 0, 0, 0, 0, 1))
    assert plain(compact("deepseek-v3")).count("as in dense") == 1


@pytest.mark.parametrize("name", ["t5-11b", "switch-base-8", "whisper-tiny"])
def test_the_source_goes_to_every_cross_attention(name):
    shapes = compact(name).shapes
    boxes = [shape for shape in shapes if isinstance(shape, Box) and shape.says.endswith("cross-attention")]
    ends = [shape.points[-1] for shape in shapes if isinstance(shape, Polyline) and shape.arrow and shape.behind]
    assert boxes
    middles = sorted((box.x, box.y + box.height / 2) for box in boxes)
    assert sorted(ends) == [pytest.approx(middle) for middle in middles]


@pytest.mark.parametrize("ending", ["svg", "png", "pdf", "tex"])
def test_the_command_draws_it(call, tmp_path, ending):
    place = tmp_path / f"column.{ending}"
    done = call("show", "gpt2", "--diagram", str(place), "--compact")
    assert (done.returncode, done.stdout) == (0, f"{place}\n")
    assert place.stat().st_size > 2000
    draw_diagram({"gpt2 (OpenAI, 2019)": architecture("gpt2")}, tmp_path / f"again.{ending}", compact=True)
    assert place.read_bytes() == (tmp_path / f"again.{ending}").read_bytes()


@pytest.mark.parametrize("words", [("show", "gpt2"), ("diff", "gpt2", "gpt2")])
def test_a_form_of_nothing_is_refused(call, words):
    told = call(*words, "--compact")
    assert (told.returncode, told.stdout) == (2, "")
    assert "--diagram FILE.pdf" in told.stderr
