"""Pictures of what a model reaches on a task, and of its logit lens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyformer.pictures.style import FAINT, INK, drawing, in_tokens, line_of
from anyformer.probing.lens import Lens
from anyformer.probing.levels import DistanceBucket, Level, Probed

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_probed(found: Probed, path: Path, *, title: str) -> None:
    """Accuracy by length, by position, and where answers stand somewhere, by distance; the chance is dotted."""
    far = any(level.by_distance for level in found.levels)
    with drawing(path, 4.0 * (2 + far), 3.6) as figure:
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=10)
        axes = figure.subplots(1, 2 + far, squeeze=False)[0]
        _by_length(axes[0], found)
        _by_number(axes[1], [(level, level.by_position) for level in found.levels], "position, from")
        if far:
            _by_number(axes[2], [(level, level.by_distance) for level in found.levels], "distance to the answer, from")


def _by_length(axes: Axes, found: Probed) -> None:
    lengths = [level.length for level in found.levels]
    axes.plot(lengths, [level.targets.accuracy for level in found.levels], "o", label="targets", **line_of(0))
    axes.plot(lengths, [level.answers.accuracy for level in found.levels], "s", label="whole answers", **line_of(1))
    axes.plot(lengths, [level.targets.chance for level in found.levels], ":", color=INK, label="chance of a target")
    if found.trained is not None:
        axes.axvline(found.trained, color=FAINT, linewidth=0.8)
    _finish(axes, lengths, "length")


def _by_number(axes: Axes, levels: Sequence[tuple[Level, Sequence[DistanceBucket]]], what: str) -> None:
    firsts: set[int] = set()
    for number, (level, buckets) in enumerate(levels):
        places = [bucket.first for bucket in buckets]
        firsts |= set(places)
        accuracy = [bucket.share.accuracy for bucket in buckets]
        axes.plot(places, accuracy, marker="o", markersize=3.5, label=f"length {in_tokens(level.length)}", **line_of(number))
    _finish(axes, sorted(firsts), what)


def _finish(axes: Axes, places: Sequence[int], what: str) -> None:
    axes.set_xscale("symlog", base=2, linthresh=1)
    every = max(1, math.ceil(len(places) / 7))
    axes.set_xticks(places[::every], [in_tokens(place) for place in places[::every]])
    axes.minorticks_off()
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel(what)
    axes.set_ylabel("accuracy")
    axes.grid()
    axes.legend()


def draw_lens(found: Lens, path: Path, *, title: str) -> None:
    """How likely each target of a row is after every layer, and the accuracy after each."""
    layers = list(range(len(found.accuracy)))
    with drawing(path, 8.0, 3.2) as figure:
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=10)
        left, right = figure.subplots(1, 2, width_ratios=(2, 1))
        image = left.imshow(found.probabilities, aspect="auto", cmap="Blues", vmin=0, vmax=1, origin="lower")
        left.set_yticks(range(len(layers)), [str(layer) for layer in layers])
        every = max(1, math.ceil(len(found.positions) / 12))
        left.set_xticks(range(0, len(found.positions), every), [str(place) for place in found.positions[::every]])
        left.set_xlabel("position of the target")
        left.set_ylabel("after layer")
        figure.colorbar(image, ax=left, label="probability of the target")
        right.plot(layers, found.accuracy, marker="o", **line_of(0))
        right.set_xticks(layers)
        right.set_ylim(-0.03, 1.03)
        right.set_xlabel("after layer")
        right.set_ylabel("accuracy")
        right.grid()
