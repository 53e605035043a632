"""What text figures look like: loss by position and by length of document, and how sure the model may be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyformer.evaluation.text_figures import ContextBucket, TextFigures
from anyformer.pictures.style import FAINT, PALETTE, drawing, in_tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_figures(figures: TextFigures, path: Path, *, title: str) -> None:
    """Loss by the tokens read before, by length of document if there are several, and accuracy by confidence."""
    panels: list[tuple[str, Sequence[ContextBucket]]] = [("tokens read before", figures.by_position)]
    if figures.by_document:
        panels.append(("tokens of the document", figures.by_document))
    with drawing(path, 4.0 * (len(panels) + 1), 3.6) as figure:
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=10)
        axes = figure.subplots(1, len(panels) + 1, squeeze=False)[0]
        for place, (what, buckets) in zip(axes, panels, strict=False):
            _by_length(place, what, buckets, figures.whole.loss)
        _calibration(axes[-1], figures)


def _by_length(axes: Axes, what: str, buckets: Sequence[ContextBucket], whole: float) -> None:
    firsts = [bucket.first for bucket in buckets]
    axes.plot(firsts, [bucket.sums.loss for bucket in buckets], "o-", color=PALETTE[0], markersize=4)
    axes.axhline(whole, color=FAINT, linestyle=":", label=f"all: {whole:.3f}")
    axes.set_xscale("log", base=2)
    every = -(-len(firsts) // 7)
    axes.set_xticks(firsts[::every], [in_tokens(first) for first in firsts[::every]])
    axes.minorticks_off()
    axes.set_xlabel(f"{what}, from")
    axes.set_ylabel("loss (nats per token)")
    axes.grid()
    axes.legend()


def _calibration(axes: Axes, figures: TextFigures) -> None:
    bins = [each for each in figures.calibration if each.count]
    axes.plot([0, 1], [0, 1], color=FAINT, linestyle=":")
    axes.plot([each.confidence for each in bins], [each.accuracy for each in bins], "o-", color=PALETTE[1], markersize=4)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("probability of the likeliest token")
    axes.set_ylabel("how often it is right")
    axes.set_title(f"calibration error {figures.calibration_error:.3f}")
    axes.grid()
