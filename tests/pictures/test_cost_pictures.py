"""Pictures of costs: the numbers that are drawn are the sheet's, about the architectures asked for and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import anyformer as af
from anyformer.describe import UserError
from anyformer.pictures.costs import draw_costs, panels_of
from anyformer.pictures.costs.meanings import COMPONENTS, MEMORY
from anyformer.pictures.costs.memory import inference_bars, inference_rows, training_bars, training_rows
from anyformer.pictures.costs.roofline import points
from anyformer.pictures.costs.share import forward, mixing_share, shares
from anyformer.pictures.costs.state import _memory_left, contexts, curves
from anyformer.pictures.labels import LINE, LabelBox, placed
from anyformer.pictures.style import FAINT, INK, doublings, in_bytes, in_tokens, token_ticks


def sheet_of(name, **options):
    return af.cost(af.architecture(name), hardware="h100", **{"length": 512, "batch": 2, **options})


GPT2, GEMMA, BERT, T5 = (sheet_of(name) for name in ("gpt2", "gemma-3-1b", "bert-base-uncased", "t5-small"))


def test_the_memory_for_decode_state_is_what_weights_leave():
    sheet, axes = sheet_of("llama-3-8b"), Figure().subplots()
    axes.set_ylim(1, 1e12)
    _memory_left(axes, sheet)
    (line,) = axes.lines
    assert line.get_ydata()[0] == sheet.hardware.usable_memory - 2 * sheet.params.total


def test_bars_of_training_add_up_to_the_sheet():
    bars = training_bars(GPT2)
    assert [bar.name for bar in bars] == ["none", "selective", "full"]
    for bar in bars:
        sheet = replace(GPT2, plan=GPT2.plan.but(checkpointing=bar.name))
        assert (bar.total, bar.devices) == (sheet.peak.total, sheet.devices)
    both = training_rows({"a": GPT2, "b": BERT})
    assert {name: size for name, (size, _) in both["together"].items()} == {"a": GPT2.peak.total, "b": BERT.peak.total}
    for name in ("a", "b"):
        assert (
            sum(row[name][0] for title, row in both.items() if title != "together" and name in row) == both["together"][name][0]
        )


def test_bars_of_inference_add_up_to_the_sheet():
    state = GPT2.of("prefill").state_bytes
    assert {bar.name: bar.total - state for bar in inference_bars(GPT2)} == dict(GPT2.weights)
    assert all(bar.parts.keys() == {"weights"} for bar in inference_bars(BERT))
    side_by_side = inference_rows({"a": GPT2, "b": BERT})
    assert list(side_by_side) == ["bf16", "fp8", "int4", "decode state, of it"]
    assert side_by_side["fp8"]["b"][0] == BERT.weights["fp8"]
    assert side_by_side["decode state, of it"].keys() == {"a"}


def test_what_does_not_fit_says_on_how_many_devices_it_does():
    (none, *_) = training_bars(sheet_of("deepseek-v3"))
    assert none.devices > 100
    assert none.total > none.devices * 0.9 * GPT2.hardware.usable_memory


def test_decode_state_ends_with_the_position_table_and_rings_are_level():
    assert contexts(GPT2)[-1] == 1024
    (line,) = curves({"gpt2": GPT2})
    assert line.sizes[-1] == replace(GPT2, mode="prefill", length=1024).state_bytes
    total, *ways = curves({"gemma": GEMMA})
    assert [way.name for way in ways] == ["of it, grows to its window", "of it, grows with every token"]
    ring = dict(zip(ways[0].contexts, ways[0].sizes, strict=True))
    assert ring[256] < ring[512] == ring[131072], "a window of 512"
    for size, of_ring, of_all in zip(total.sizes, *(way.sizes for way in ways), strict=True):
        assert 0 <= size - of_ring - of_all <= 8 * 2 * 131072, "the rest is the book of positions"


def test_what_decodes_nothing_has_no_curve():
    assert curves({"bert": BERT}) == ()


@pytest.mark.parametrize("sheet", [GPT2, GEMMA, BERT, T5], ids=["gpt2", "gemma", "bert", "t5"])
def test_shares_of_flops_are_the_sheets(sheet):
    assert sum(forward(sheet, 512).values()) == sheet.flops.forward.exact
    lengths, found = shares(sheet)
    for values in zip(*found.values(), strict=True):
        assert sum(values) == pytest.approx(1)
    of_mixing = mixing_share(sheet)[1]
    assert sorted(of_mixing) == of_mixing, "attention's share grows with the length"
    assert len(lengths) == len(of_mixing)


@pytest.mark.parametrize(
    "sheets", [{"gpt2": GPT2}, {"t5": T5}, {"bert": BERT}, {"a": GPT2, "b": T5}], ids=["one", "two inputs", "encoder", "two"]
)
def test_points_lie_under_the_roof(sheets):
    found = points(sheets)
    hardware = GPT2.hardware
    for point in found:
        assert 0 < point.rate <= min(hardware.peak("bf16"), hardware.bandwidth * point.intensity), point
    decodes = all("decode" in sheet.modes for sheet in sheets.values())
    assert {point.mode for point in found} == ({"prefill", "decode"} if decodes else {"train", "prefill"})


def test_names_stand_off_points_lines_and_each_other():
    at = [(50.0 + 3 * i, 100.0 + (i % 3)) for i in range(8)]
    line = LabelBox(0, 110, 400, 112)
    room = LabelBox(0, 0, 400, 220)
    boxes = placed(at, [f"operation {i}" for i in range(8)], room, [line])
    for i, box in enumerate(boxes):
        assert box.inside(room)
        assert box.top - box.bottom == LINE
        assert not any(box.meets(other) for other in (*boxes[:i], line))
        assert not any(box.meets(LabelBox(x, y, x, y)) for x, y in at)


@pytest.mark.parametrize(("number", "text"), [(4096, "4k"), (1536, "1.5k"), (197, "197"), (1000, "1,000"), (1 << 20, "1M")])
def test_tokens_are_written_as_people_say_them(number, text):
    assert in_tokens(number) == text


def test_axes_are_readable():
    assert in_bytes(12_345_678_901) == "12.3 GB"
    assert token_ticks(4096) == [0, 1024, 2048, 3072, 4096]
    assert token_ticks(197) == [0, 197]
    assert doublings(16, 197) == (16, 32, 64, 128, 197)


@pytest.mark.parametrize("sheets", [{"t5": T5}, {"gpt2": GPT2, "bert": BERT}], ids=["one", "two"])
def test_panels_are_drawn(sheets, tmp_path):
    draw_costs(sheets, tmp_path / "cost.svg")
    assert (tmp_path / "cost.svg").stat().st_size > 20_000


def axes_of(sheets):
    """The panels of a picture, drawn."""
    figure = Figure(figsize=(10, 14), layout="constrained")
    panels = panels_of(sheets)
    places = [figure.add_subplot(3, 2, i + 1) for i in range(len(panels))]
    for place, draw in zip(places, panels, strict=True):
        draw(place)
    FigureCanvasAgg(figure).draw()
    return places


def colour_of(handle):
    """The colour that a legend shows: of a line, of bars, or of an area."""
    if isinstance(handle, Line2D):
        return to_hex(handle.get_color())
    return to_hex(handle.patches[0].get_facecolor() if isinstance(handle, BarContainer) else handle.get_facecolor()[0])


def test_a_small_model_is_seen_beside_a_large_one():
    """Linear bars made a model of 8 B invisible beside one of 671 B."""
    training, inference, *_ = axes_of({"small": GPT2, "large": sheet_of("deepseek-v3")})
    for axes in (training, inference):
        assert axes.get_xscale() == "log"
        marks = [line for line in axes.lines if line.get_marker() not in ("None", "") and len(line.get_xdata())]
        spans = [axes.transData.transform((line.get_xdata()[0], 0))[0] for line in marks]
        assert min(spans) > axes.bbox.x0 + 5
        assert max(spans) < axes.bbox.x1 - 60, "its number has space"
        said = [text for text in axes.texts if text.get_text()]
        assert len(said) == len(marks)
        boxes = [text.get_window_extent() for text in said]
        assert all(axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 for box in boxes)


@pytest.mark.parametrize(
    "sheets", [{"gemma": GEMMA}, {"t5": T5}, {"bert": BERT}, {"a": GPT2, "b": T5}, {"a": BERT, "b": GPT2}],
    ids=["rings", "two inputs", "encoder", "two", "one that decodes nothing"],
)  # fmt: skip
def test_a_colour_means_one_thing_in_all_panels(sheets):
    """Two colours meant models in one row and phases in the next."""
    found, places = {}, axes_of(sheets)
    for axes in places:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(colour_of(handle), set()).add(label)
    of_memory = found.pop(MEMORY["decode state"], set())
    named = {colour: labels for colour, labels in found.items() if colour not in (FAINT, INK)}
    assert all(len(labels) == 1 for labels in named.values()), named
    if len(sheets) > 1:
        assert set().union(*named.values()) == set(sheets)
    else:
        assert all(label in ("decode state", *sheets) or label.startswith("of it") for label in of_memory)
        # Points of the roofline, which have no legend of colours, have those of the areas.
        areas = {colour for colour in named if colour in COMPONENTS}
        roofline = places[-1]
        points = {to_hex(line.get_color()) for line in roofline.lines if len(line.get_xdata()) == 1}
        assert points & areas
        assert points <= {*COMPONENTS, FAINT}


def test_panels_that_do_not_apply_are_left_out():
    assert len(panels_of({"gpt2": GPT2})) == 5
    assert len(panels_of({"bert": BERT})) == 4, "no decode state"


def test_a_chart_needs_hardware_and_a_place(tmp_path):
    with pytest.raises(UserError, match="name its hardware"):
        draw_costs({"gpt2": replace(GPT2, hardware=None)}, tmp_path / "cost.png")
    with pytest.raises(UserError, match="a picture ends in"):
        draw_costs({"gpt2": GPT2}, tmp_path / "cost.txt")


def test_one_position_is_priced():
    assert sheet_of("gpt2", length=1).of("prefill").state_bytes > 0


@pytest.mark.parametrize("sheet", [GPT2, T5], ids=["gpt2", "t5"])
def test_a_chart_is_the_same_whatever_mode_was_asked_for(sheet):
    for drawn in (curves, points):
        assert drawn({"it": sheet.of("decode")}) == drawn({"it": sheet})
    for bars in (training_bars, inference_bars):
        assert bars(sheet.of("decode")) == bars(sheet)
