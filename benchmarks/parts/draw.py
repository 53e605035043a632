"""The pictures of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

COLOURS = {"twin": "#9aa5b1", "peer": "#2f6db5"}
SLOWER = "#c0392b"


def ratios(comparisons: Mapping[str, Any]) -> Figure:
    """How many times faster than each contender, a bar each; left of 1 we are slower."""
    bars = [
        (f"{name}: {other}", row["kinds"][other], faster)
        for name, row in comparisons.items()
        for other, faster in row["ours_is_faster_by"].items()
    ][::-1]
    figure = Figure(figsize=(11, 1 + 0.2 * len(bars)), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    colours = [SLOWER if kind == "peer" and faster < 1 else COLOURS[kind] for _, kind, faster in bars]
    drawn = axes.barh(range(len(bars)), [faster - 1 for *_, faster in bars], left=1, color=colours)
    axes.bar_label(drawn, [f"{faster:.2f}" for *_, faster in bars], padding=2, fontsize=7)
    axes.set_yticks(range(len(bars)), [label for label, *_ in bars], fontsize=7)
    axes.set(xscale="log", xlabel="anyformer is faster by (blue: a peer, red: a peer that is faster, grey: our plain twin)")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.margins(y=0.01)
    axes.grid(axis="x", alpha=0.3)
    return figure


def growth(measured: Mapping[str, Any]) -> Figure:
    """Seconds against length."""
    figure = Figure(figsize=(6.5, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for name, times in measured["seconds"].items():
        axes.plot(list(times), list(times.values()), "o-", label=f"{name}: T^{measured['grows_as_T_to_the'][name]:.2f}")
    axes.set(xscale="log", yscale="log", xlabel="T", ylabel="seconds", title=measured["shape"])
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
