"""The pictures of a study: something is to be seen on every one, and no name stands over another."""

from __future__ import annotations

from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from anyformer.pictures.style import FEW
from anyformer.studies.charts import pictures
from anyformer.studies.page import page
from studies.made_up_findings import arm, findings

CLOSE = {f"attention_of_{i}": arm(f"attention_of_{i}", 3 + i / 500, parameters=1000 + 8 * i) for i in range(6)}


def drawn(found, name):
    """The figure of a picture, as it is printed."""
    _, draw, size = pictures(found)[name]
    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    FigureCanvasAgg(figure).draw()
    return figure


@pytest.mark.parametrize("evaluations", [1, 2, FEW])
def test_a_short_study_shows_its_curves(evaluations):
    """One evaluation a trial was a line through one point: axes, a legend, and nothing else."""
    arms = {name: arm(name, quality, evaluations=evaluations) for name, quality in (("base", 3.0), ("one_head", 3.2))}
    (axes,) = drawn(findings(arms), "curves").axes
    for line, (name, one) in zip(axes.lines, arms.items(), strict=True):
        assert line.get_label() == name
        assert len(line.get_xdata()) == evaluations
        assert line.get_marker() not in ("", "None", None)
        assert one.curves
    ink = [collection for collection in axes.collections if collection.get_paths()]
    assert len(ink) == len(arms), "what seeds differ by is drawn too"


def test_many_points_are_a_line_alone():
    (axes,) = drawn(findings({"base": arm("base", 3.0, evaluations=FEW + 1)}), "curves").axes
    assert [line.get_marker() for line in axes.lines] == ["None"]


def test_names_beside_costs_stand_apart():
    """Arms that cost almost the same were named over each other."""
    figure = drawn(findings(CLOSE), "pareto")
    for axes in figure.axes:
        if axes.axison:
            boxes = [Text.get_window_extent(text) for text in axes.texts]
            assert set(CLOSE) <= {name for text in axes.texts for name in text.get_text().replace("\n", " ").split(", ")}
            assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]


def test_an_interval_stays_in_one_line():
    """It was broken over up to four lines in a narrow column."""
    text = page(findings(CLOSE))
    assert "td.number { white-space: nowrap; }" in text
    assert '<td class="number">3.0500 (3.0000 to 3.1000)</td>' in text
