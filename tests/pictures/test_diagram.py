"""Diagrams: what is drawn and where, by their geometry; of the files only that they are what they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal
from xml.etree import ElementTree

import pytest
from combinations import draw
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from zoo import ZOO

from anyformer.catalogue import architecture, listing
from anyformer.describe import UserError
from anyformer.model import decoder_only
from anyformer.parts import Attention, Embedding, FeedForward, Head, RMSNorm, pre_norm
from anyformer.parts.sketch import Cell, Fan, Sketch, number
from anyformer.pictures import diagram, draw_diagram
from anyformer.pictures.diagram.kinds import sections
from anyformer.pictures.diagram.look import look
from anyformer.pictures.diagram.shapes import Box, Cells, Polyline, TextLine
from anyformer.pictures.diagram.text import FONT, width_of
from covering import kinds, others_slow
from pictures.geometry import faults, marks, texts, untouched

LINEAGES = {entry.lineage: entry.name for entry in listing()}
"""One entry of each lineage; all of them under `slow`."""
SHOWN = (
    "gpt2", "llama-3-8b", "gemma-3-27b", "deepseek-v3", "t5-11b", "qwen3-next-80b-a3b", "gpt-oss-120b", "kimi-linear-48b-a3b",
    "perceiver-imagenet", "switch-base-8", "llama-4-maverick", "gemma-4-26b-a4b", "lfm2-8b-a1b",
)  # fmt: skip


def drawn(*names):
    return diagram({name: architecture(name) for name in names})


@pytest.mark.parametrize("name", sorted({*LINEAGES.values(), *SHOWN}))
def test_nothing_is_cut_overlaps_or_leaves_its_box_and_no_part_stands_alone(name):
    """The relative bias of T5 touched nothing."""
    assert faults(drawn(name)) + untouched(drawn(name)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [entry.name for entry in listing()])
def test_nothing_is_cut_overlaps_or_leaves_its_box_in_the_whole_catalogue(name):
    assert faults(drawn(name)) + untouched(drawn(name)) == []


@pytest.mark.parametrize("name", others_slow(ZOO))
def test_every_part_and_field_can_be_drawn_and_every_branch_is(name):
    drawing = diagram({name: ZOO[name]})
    assert faults(drawing) + untouched(drawing) == []
    said = " ".join(texts(drawing))
    for stack in ZOO[name].stacks.values():
        for block in stack.variants.values():
            for branch in block.branches.values():
                # A title may stand in several lines.
                assert branch.sublayer.sketch(ZOO[name].width).title.split(" ")[0] in said


DRAWN = {str(seed): draw(seed) for seed in range(40)}


@pytest.mark.parametrize("seed", others_slow(DRAWN, kinds))
def test_random_combinations_of_parts_can_be_drawn_alone_and_side_by_side(seed):
    one, two = DRAWN[seed], draw(int(seed) + 1)
    for named in ({"one": one}, {"one": one, "two": two}):
        assert faults(diagram(named)) + untouched(diagram(named)) == []


def test_the_check_of_drawings_notices_what_it_is_for():
    drawing = drawn("gpt2")
    box = next(shape for shape in drawing.shapes if isinstance(shape, Box) and shape.says.startswith("up"))
    label = next(shape for shape in drawing.shapes if isinstance(shape, TextLine) and shape.says.startswith("up"))

    def more(*shapes):
        return faults(replace(drawing, shapes=drawing.shapes + shapes))

    assert any("text leaves" in fault for fault in more(replace(label, x=box.x)))
    assert any("boxes overlap" in fault for fault in more(box.moved(5, 5)))
    assert any("texts overlap" in fault for fault in more(label))
    assert any("cut" in fault for fault in more(box.moved(-2 * drawing.width, 0)))
    assert any("struck" in fault for fault in more(Polyline(((0, label.y), (drawing.width, label.y)))))
    alone = Box(drawing.width - 8, 2, 4, 4, "norm")
    assert untouched(drawing) == []
    assert untouched(replace(drawing, shapes=(*drawing.shapes, alone))) == [f"touches nothing: {alone}"]


def test_a_layer_is_drawn_once_with_what_it_holds():
    drawing = drawn("llama-3-8b")
    said = texts(drawing)
    assert {"llama-3-8b", "32 layers", "width 4,096", "8.03 B parameters", "× 32", "tokens", "128,256 logits"} <= set(said)
    assert {"Grouped-query attention", "rotary θ 500,000", "Q 32 × 128", "K 8 × 128", "gate 14,336", "SiLU"} <= set(said)
    assert len(marks(drawing, "+")) == 2
    assert len(marks(drawing, "×")) == 1
    heads = [shape for shape in drawing.shapes if isinstance(shape, Cells)]
    assert sorted(len(each.shades) for each in heads) == [8, 8, 32]
    queries = max(heads, key=lambda each: len(each.shades)).shades
    row = len(queries) // max(heads, key=lambda each: len(each.shades)).rows
    assert [queries[i] for i in range(0, row, 4)] == [i // 4 % 2 for i in range(0, row, 4)]


def test_parallel_branches_come_back_to_one_plus_and_post_norm_stands_on_the_stream():
    assert len(marks(drawn("palm-540b"), "+")) == 1
    shapes = drawn("bert-base-uncased").shapes
    stream = max((s for s in shapes if isinstance(s, Polyline) and s.thick), key=lambda s: s.points[-1][1] - s.points[0][1])
    norms = [shape for shape in shapes if isinstance(shape, Box) and shape.tone == "norm"]
    assert len(norms) == 2
    assert all(norm.x < stream.points[0][0] < norm.x + norm.width for norm in norms)


@pytest.mark.parametrize(("name", "factor"), [("granite-3.3-8b", "× 0.22"), ("minimax-text-01", "× 3.557")])
def test_factors_of_branches_and_of_the_stream_are_drawn(name, factor):
    assert factor in texts(drawn(name))


@pytest.mark.parametrize(
    ("name", "readers"),
    [("t5-11b", 1), ("whisper-tiny", 1), ("bart-large", 1), ("switch-base-8", 2), ("perceiver-imagenet", 1)],
)
def test_the_source_goes_to_every_cross_attention(name, readers):
    shapes = drawn(name).shapes
    boxes = [shape for shape in shapes if isinstance(shape, Box) and shape.says.endswith("cross-attention")]
    arrows = [shape.points[-1] for shape in shapes if isinstance(shape, Polyline) and shape.arrow and shape.behind]
    assert len(boxes) == len(arrows) == readers
    for box, (x, y) in zip(sorted(boxes, key=lambda each: each.x), sorted(arrows), strict=True):
        assert x == pytest.approx(box.x)
        assert box.y < y < box.y + box.height


def test_a_source_before_the_target_joins_it_below_the_decoder():
    shapes = diagram({"": ZOO["pair_prefix"]}).shapes
    (end,) = [shape.points[-1] for shape in shapes if isinstance(shape, Polyline) and shape.arrow and shape.behind]
    joined = next(shape for shape in shapes if isinstance(shape, Box) and shape.says == "Source before target")
    assert end[0] == pytest.approx(joined.x)
    assert joined.y < end[1] < joined.y + joined.height


def test_layers_that_take_turns_and_layers_in_series_look_different():
    turns, series = drawn("gemma-3-27b"), drawn("deepseek-v3")
    assert "62 layers by turns: (5 local, 1 global) × 10, then 2 local" in texts(turns)
    (strip,) = [shape for shape in turns.shapes if isinstance(shape, Cells) and shape.tone == "strip"]
    assert list(reversed(strip.shades)) == [int(i % 6 == 5) for i in range(62)]
    frames = [shape for shape in turns.shapes if isinstance(shape, Box) and shape.tone == "frame"]
    assert frames[0].y == frames[1].y
    assert frames[0].height == frames[1].height
    lower, upper = [shape for shape in series.shapes if isinstance(shape, Box) and shape.tone == "frame"]
    assert lower.y + lower.height < upper.y
    assert not [shape for shape in series.shapes if isinstance(shape, Cells) and shape.tone == "strip"]
    assert {"× 3", "0 – 2", "× 58", "3 – 60", "as in layers 0 – 2"} <= set(texts(series))


@pytest.mark.parametrize(
    ("order", "patterns"),
    [
        ("a a a", ["× 3"]),
        ("a a b b b", ["× 2", "× 3"]),
        ("a b a b a", ["(1 a, 1 b) × 2, then 1 a"]),
        ("a b b c b b c", ["× 1", "(2 b, 1 c) × 2"]),
        ("a b a a b", ["3 a, 2 b"]),
        ("a b a c d c", ["2 a, 1 b", "2 c, 1 d"]),
    ],
)
def test_layers_are_in_series_but_where_kinds_stand_between_one_another(order, patterns):
    found = sections(order.split(), {name: name for name in "abcd"})
    assert [section.pattern for section in found] == patterns
    assert [section.first for section in found] == [sum(len(s.layers) for s in found[:i]) for i in range(len(found))]


def test_variants_that_look_alike_are_one_kind():
    (section,) = sections(["x", "y", "x"], {"x": "alike", "y": "alike"})
    assert [kind.names for kind in section.kinds] == [("x", "y")]


def test_many_kinds_that_differ_in_numbers_are_one_with_ranges():
    looks = {name: f"decay {rate}, 8 heads" for name, rate in zip("abcde", (0.5, 1, 0.25, 2, 4), strict=True)}
    (section,) = sections(tuple("abcde"), looks)
    assert [kind.look.replace("\u00a0", " ") for kind in section.kinds] == ["decay 0.25 … 4, 8 heads"]
    assert section.kinds[0].name == "a … e"
    kept = sections(tuple("abc"), {name: looks[name] for name in "abc"})
    assert len(kept) == 3


def test_a_factor_by_layer_is_drawn_in_words():
    said = " ".join(texts(drawn("minimax-text-01"))).replace("\u00a0", " ")
    assert "80 layers by turns: (7 lightning, 1 softmax) × 10" in said
    assert "decay by layer" in said


def test_layers_are_counted_from_0_as_in_the_names_of_weights():
    said = texts(drawn("gemma-3-27b"))
    assert {"0", "61"} <= set(said)
    assert "62" not in said


def _one(drawing, says):
    """The box on or beside the stream that says so."""
    (box,) = [shape for shape in drawing.shapes if isinstance(shape, Box) and (shape.says, shape.tone) == (says, "table")]
    return box


def test_what_predicts_later_tokens_is_drawn_where_it_reads():
    """It was a word of the subtitle alone."""
    drawing = drawn("deepseek-v3")
    box = _one(drawing, "1 later token, in training alone")
    ends = [line.points[-1] for line in drawing.shapes if isinstance(line, Polyline) and line.arrow]
    assert any(x == box.x and box.y < y < box.y + box.height for x, y in ends)
    head, norm = (_one(drawing, says) for says in ("Linear head", "RMSNorm"))
    assert norm.y < box.y < head.y
    assert not [words for words in texts(drawing) if "more predicted" in words]
    parallel = next(each for each in ZOO.values() if each.mtp is not None and each.mtp.reads_stream)
    assert "what enters the last layer" in " ".join(texts(diagram({"it": parallel})))


def test_a_sublayer_shown_in_a_section_before_is_named_among_layers_that_take_turns_too():
    """The first layer of Kimi Linear and those of its turns had the same delta net, drawn twice."""
    drawing = drawn("kimi-linear-48b-a3b")
    assert texts(drawing).count("Gated delta net") == 2
    assert texts(drawing).count("as in layer 0") == 1
    first, second = sorted((s for s in drawing.shapes if isinstance(s, Box) and s.says == "Gated delta net"), key=lambda s: s.y)
    assert second.height < first.height / 3


class Mirrored(FeedForward):
    """A part that says nothing of how it is drawn."""

    kind: Literal["mirrored"] = "mirrored"

    def sketch(self, width):
        return super(FeedForward, self).sketch(width)


def test_a_part_that_says_nothing_is_drawn_by_what_differs_from_its_defaults():
    sketch = Mirrored(width=64, gated=False).sketch(32)
    assert sketch == Sketch("Mirrored", ("width 64", "not gated"))


def test_what_a_part_says_is_what_is_drawn():
    part = Attention(heads=6, kv_heads=2, head_width=16)
    block = pre_norm(RMSNorm(), part, FeedForward(width=64))
    small = decoder_only(Embedding(vocab=9), 96, [block] * 2, head=Head())
    cells = {box.says for box in diagram({"small": small}).shapes if isinstance(box, Box)}
    assert any(says.startswith("Q 6 × 16") for says in cells)
    first = part.sketch(96).flow.items[0]
    assert isinstance(first, Fan)
    assert [cell.count for cell in (*first.items[0].items, first.items[1]) if isinstance(cell, Cell)] == [6, 2, 2]


def test_which_projections_add_a_bias_and_where_queries_are_normalised():
    assert "biases" in texts(drawn("gpt2"))
    assert "bias on query, key, value" in texts(drawn("qwen2-7b"))
    assert not [says for says in texts(drawn("llama-3-8b")) if "bias" in says]

    def norm_below_rotary(name):
        height = {says: box.y for box in drawn(name).shapes if isinstance(box, Box) for says in [box.says.split(" ")[0]]}
        return height["QK-norm"] < height["rotary"]

    assert norm_below_rotary("qwen3-8b")
    assert not norm_below_rotary("hunyuan-7b")


@pytest.mark.parametrize(("value", "said"), [(14336, "14,336"), (5e5, "500,000"), (0.07715167, "0.07715"), (1e-5, "1e-05")])
def test_numbers_are_short(value, said):
    assert number(value) == said


@pytest.mark.parametrize(("ending", "magic"), [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_the_ending_says_the_format_and_the_same_picture_gives_the_same_bytes(tmp_path, ending, magic):
    for name in ("one", "two"):
        draw_diagram(ZOO["llama"], tmp_path / f"{name}{ending}")
    assert (tmp_path / f"one{ending}").read_bytes().startswith(magic)
    assert (tmp_path / f"one{ending}").read_bytes() == (tmp_path / f"two{ending}").read_bytes()


def test_text_of_an_svg_is_text(tmp_path):
    draw_diagram({"a title": ZOO["llama"]}, tmp_path / "one.svg")
    said = " ".join(ElementTree.parse(tmp_path / "one.svg").getroot().itertext())
    assert "a title" in said
    assert "Feed-forward, SwiGLU" in said
    assert (tmp_path / "one.svg").stat().st_size < 150_000


@pytest.mark.parametrize("text", ["Q 32 × 128", "rotary θ 500,000 · yarn × 40", "Feed-forward, SwiGLU", "× 3.557"])
@pytest.mark.parametrize("bold", [False, True])
def test_text_is_as_wide_as_it_is_measured(text, bold):
    font = FontProperties(family=FONT, weight="bold" if bold else "normal")
    drawn_width = TextPath((0, 0), text, size=8, prop=font).get_extents().x1
    assert drawn_width <= width_of(text, 8, bold) <= 1.03 * drawn_width


def test_other_endings_and_places_are_refused_before_anything_is_drawn(tmp_path):
    with pytest.raises(UserError, match=r"picture\.jpg: .* \.png, \.svg, \.pdf"):
        draw_diagram(ZOO["llama"], tmp_path / "picture.jpg")
    with pytest.raises(UserError, match="does not exist"):
        draw_diagram(ZOO["llama"], tmp_path / "nowhere" / "picture.svg")
    with pytest.raises(UserError, match="no architecture to draw"):
        draw_diagram({}, tmp_path / "picture.svg")
    assert list(tmp_path.iterdir()) == []


def test_show_and_diff_draw_with_names_and_years(call, tmp_path):
    assert call("show", "gpt2", "--diagram", str(tmp_path / "one.svg")).returncode == 0
    assert "gpt2 (OpenAI, 2019)" in (tmp_path / "one.svg").read_text()
    assert (
        call(
            "diff", "gpt2", "gpt2", "--set", "decoder.layer.attention.kv_heads=4", "--diagram", str(tmp_path / "two.svg")
        ).returncode
        == 0
    )
    assert "Multi-head attention" in (tmp_path / "two.svg").read_text()
    assert "Grouped-query attention" in (tmp_path / "two.svg").read_text()


def test_a_tower_of_images_is_a_column_that_joins_the_text():
    tower, text = look(architecture("qwen3-vl-8b"), "").columns
    assert (tower.name, tower.enters, text.name, text.enters) == ("images", "images", "decoder", "tokens")
    assert [item.sketch.title for item in tower.outputs] == ["Projector", "Deep-stack"]
    assert tower.outputs[1].sketch.facts[0] == "behind layers 8, 16, 24"
    assert [(item.sketch.title, item.place) for item in tower.inputs] == [
        ("Patches of 16 × 16", "rail"),
        ("Learned positions", "added"),
    ]
    assert [item.place for item in text.inputs] == ["rail", "joined"]
    assert len(look(architecture("qwen3-8b"), "").columns) == 1
