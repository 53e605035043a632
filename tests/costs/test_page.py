"""The sheet in words: figures line up, say what the values say, and stand side by side."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

import anyformer as af
from anyformer.costs.derived import derived
from anyformer.costs.figures import Figure, count, scaled, size
from anyformer.costs.hardware import Efficiency
from anyformer.costs.named_hardware import hardware_of
from anyformer.costs.page import page, reached, title, warnings
from anyformer.costs.rows import FigureRow, Section
from anyformer.costs.sheet import MODES
from anyformer.costs.text import lines, side_by_side, text
from effort import calls

NAMES = [
    "llama-3-8b", "mixtral-8x7b", "deepseek-v3", "gemma-3-27b", "t5-small", "whisper-tiny", "bert-base-uncased", "vit-base-16",
    "perceiver-imagenet", "albert-base-v2", "qwen3-next-80b-a3b", "minimax-text-01", "lfm2-1.2b",
]  # fmt: skip


def sheet_of(name, **options):
    return af.cost(af.architecture(name), **{"length": 448, "hardware": "h100", **options})


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_model_has_its_page(name):
    sheet = sheet_of(name)
    written = text(page(sheet, MODES))
    assert f"{sheet.params.total:,}" in written
    assert f"{scaled(sheet.required_bytes)}B" in written
    assert f"{scaled(sheet.of('prefill').state_bytes)}B" in written or "decode" not in sheet.modes
    assert text(tuple(derived(sheet, MODES))).count("\n") > 30
    assert json.loads(sheet.json())["params"]["total"] == sheet.params.total


def test_figures_of_a_section_end_in_the_same_columns():
    sections = (
        Section(
            "Short", ("one", "two"), (FigureRow("a", (count(5), size(2e9))), FigureRow("a longer name", (count(1234567),)))
        ),
        Section("Other", ("",), (FigureRow("b", (count(7),)),)),
    )
    first, a, longer, blank, _, other = text(sections).splitlines()
    assert blank == ""
    assert first.index("one") + 3 == a.index("5") + 1 == longer.index("1,234,567") + 9
    assert len(first) == len(a)
    assert other.index("7") < len(a)
    assert not any(line != line.rstrip() for line in (first, a, longer, other))


def test_components_add_up():
    sheet = sheet_of("mixtral-8x7b")
    assert sum(sheet.params.by_component.values()) == sheet.params.total
    assert sum(sheet.params.active_by_component.values()) == sheet.params.active


def test_side_by_side_says_how_far_apart():
    ours = (Section("Size", ("", "active"), (FigureRow("total", (count(10), count(10))), FigureRow("ours", (count(1),)))),)
    theirs = (
        Section(
            "Size",
            ("", "active"),
            (FigureRow("total", (count(25), count(10))), FigureRow("fine print", (count(1),), detail=True)),
        ),
    )
    (found,) = side_by_side(["a", "b"], [ours, theirs])
    assert found.columns == ("a", "b", "most / least")
    rows = {row.name: [str(figure) for figure in row.figures] for row in found.rows}
    assert rows == {"total": ["10", "25", "a 2.50 x less"], "total, active": ["10", "10", ""], "ours": ["1", "", ""]}
    (turned,) = side_by_side(["b", "a"], [theirs, ours])
    assert str(turned.rows[0].figures[-1]) == "a 2.50 x less"
    (three,) = side_by_side(["a", "b", "c"], [ours, theirs, theirs])
    assert str(three.rows[0].figures[-1]) == "a least, 2.50 x"
    strong = [line.text.split()[0] for line in lines((found,)) if line.strong]
    assert strong == ["Size", "total"]


def test_the_title_and_the_warnings_say_what_is_assumed():
    half = hardware_of("h100").but(efficiency=Efficiency(matrix=0.5, attention=0.25, memory=0.8))
    assert title(sheet_of("t5-small", source_length=100, batch=3, hardware=half)) == (
        "batch 3 x 448 tokens from a source of 100, bf16, on H100 SXM 80 GB"
    )
    assert reached(sheet_of("t5-small", hardware=half)) == (
        "counted on: 989.4 TFLOP/s, 50% of it in products and 25% in attention; 3.35 TB/s, 80% of it"
    )
    small = sheet_of("gpt2", length=2048)
    assert warnings(small, ("prefill",)) == ("the decoder's position table ends at 1,024, so it cannot be run at 2,048",)
    large = sheet_of("llama-3.1-405b", mode="decode", batch=64, length=4096)
    # 811.7 GB of weights and 135.3 GB of state, where tensors may take most of the memory
    assert large.devices == -(-947.0e9 // hardware_of("h100").usable_memory)
    (said,) = warnings(large, ("decode",))
    assert said.startswith("one H100 SXM 80 GB has no room for weights and this decode state: 947 GB of 78.14 GB (times")
    assert "--serve" in said


def test_a_sheet_without_hardware_has_no_times():
    sheet = sheet_of("gpt2", hardware=None)
    assert sheet.time is None
    assert sheet.devices == 1
    assert "Time" not in str(sheet)
    assert "needed" not in text(page(sheet, MODES))


def test_nothing_is_priced_that_is_not_asked_for(monkeypatch):
    """`af.cost` itself walks over nothing; each figure is computed once."""
    made = af.architecture("llama-3.1-405b")
    walks = []
    for holder, name in (
        (type(made), "cost"),
        (type(made), "folded_cost"),
        (import_module("anyformer.costs.activations"), "saved"),
    ):
        plain = getattr(holder, name)

        def walked(*given, plain=plain, name=name):
            walks.append(name)
            return plain(*given)

        monkeypatch.setattr(holder, name, walked)
    sheet = af.cost(made, length=8192, hardware="h100")
    assert walks == []
    assert sheet.params is sheet.params
    assert sheet.flops.total.dense > 0
    assert walks == ["folded_cost"]
    assert sheet.time is sheet.time
    assert walks == ["folded_cost", "folded_cost"]
    assert sheet.memory is sheet.memory
    assert walks.count("saved") == 1


@pytest.mark.parametrize("name", ["llama-3.1-405b", "kimi-k2", "t5-11b"])
def test_a_sheet_and_its_time_are_few_calls(name):
    """Whatever the depth: about 14,000, a few milliseconds."""
    sheet = af.cost(af.architecture(name), mode="decode", batch=8, length=8192, hardware="h100")
    assert calls(lambda: [sheet.params.total, sheet.flops.total.dense, sheet.state_bytes, sheet.time.seconds]) < 30_000


@pytest.mark.parametrize("name", ["llama-3.1-405b", "kimi-k2", "glm-4.5", "t5-11b"])
def test_a_whole_page_is_few_calls(name):
    """About 250,000 for 126 layers, what is saved for backward once traced."""
    assert sheet_of(name).memory.total
    sheet = sheet_of(name)
    assert calls(lambda: text(page(sheet, MODES))) < 500_000


def test_figures_without_numbers_do_not_compare():
    (found,) = side_by_side(["a", "b"], [(Section("s", ("",), (FigureRow("x", (Figure("memory"),)),)),)] * 2)
    assert [str(figure) for figure in found.rows[0].figures] == ["memory", "memory", ""]
