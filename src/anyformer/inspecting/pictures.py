"""Pictures of what is found inside a model: grids of paths by positions, shares of a logit, attention patterns, circuits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anyformer.describe import InputError
from anyformer.inspecting.activation_patching import PatchingGrid
from anyformer.inspecting.attribution import Attribution
from anyformer.inspecting.circuit import Circuit
from anyformer.inspecting.logit_lens import LensReading
from anyformer.pictures.style import FAINT, INK, drawing, line_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_MAPS = 24
"""Heads that are drawn at most."""
WEIGHTS = re.compile(r"(?P<stack>.+)\.(?P<kind>\w+)\[(?P<number>\d+)\]\.(?P<branch>.+)\.weights")
"""The path of a layer's attention weights."""
WIDE = 32
"""Positions whose tokens are written at an axis, at most."""


def draw_reading(
    found: LensReading, words: Sequence[str], word: Callable[[int], str], path: Path, *, title: str, asked: str = ""
) -> None:
    """The likeliest token behind every path at every position of the first row, on its probability; `words`: what is read.

    `asked`: what is asked about, in words; the ground is then the probability of the wanted token, or the difference to the
    other one where there is one.
    """
    figures, colours = _ground(found, asked)
    dark = figures.abs() > 0.6 * colours["vmax"]
    said = [[word(int(token)) for token in line] for line in found.tokens_LBTk[:, 0, :, 0]]
    count, positions = figures.shape
    with drawing(path, max(5.0, 0.55 * positions + 2.6), max(2.4, 0.32 * count + 1.4)) as figure:
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=10)
        axes = figure.subplots()
        label = asked if found.difference_LBT is not None and asked else f"probability{f' of {asked}' if asked else ''}"
        _grid(figure, axes, figures, found.paths, words, label, **colours)
        if positions <= WIDE:
            for row, line in enumerate(said):
                for column, text in enumerate(line):
                    colour = "white" if dark[row, column] else INK
                    axes.text(column, row, text[:9], ha="center", va="center", fontsize=5.5, color=colour)


def _ground(found: LensReading, asked: str) -> tuple[Tensor, dict[str, Any]]:
    """The figures (L, T) on which a reading's tokens stand, and how they are coloured."""
    if asked and found.difference_LBT is not None:
        figures = found.difference_LBT[:, 0]
        most = max(1e-6, float(figures.abs().max()))
        return figures, {"cmap": "RdBu", "vmin": -most, "vmax": most}
    figures = found.wanted_LBT[:, 0] if asked else found.probabilities_LBTk[:, 0, :, 0]
    return figures, {"cmap": "Blues", "vmin": 0.0, "vmax": 1.0}


def draw_patching(found: PatchingGrid, words: Sequence[str], path: Path, *, title: str) -> None:
    """What every replaced place brings, a line per path; refused where not one letter, as T or H, stands along it."""
    if len(found.by) != 1:
        raise InputError(
            f"a picture has a line per path with the places of one letter along it, and these are by {found.by!r}: patch by "
            "'T' or by 'H', or read table()"
        )
    figures = torch.stack([found.figures(each) for each in found.changed])
    columns = list(words) if found.by == "T" else [str(head) for head in range(figures.shape[1])]
    most = max(1e-6, float(figures.abs().max()))
    with drawing(path, max(5.0, 0.4 * len(columns) + 3.0), max(2.4, 0.28 * len(figures) + 1.4)) as figure:
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=10)
        label = "effect" if found.goal_B is None else "share that is restored"
        _grid(figure, figure.subplots(), figures, list(found.changed), columns, label, cmap="RdBu", vmin=-most, vmax=most)


def _grid(
    figure: Any, axes: Axes, figures: Tensor, rows: Sequence[str], columns: Sequence[str], label: str, **colours: Any
) -> None:
    image = axes.imshow(figures.float().cpu().numpy(), aspect="auto", interpolation="nearest", **colours)
    axes.set_yticks(range(len(rows)), rows, fontsize=6)
    every = max(1, math.ceil(len(columns) / WIDE))
    axes.set_xticks(range(0, len(columns), every), list(columns)[::every], rotation=90, fontsize=6)
    figure.colorbar(image, ax=axes, label=label)


def draw_attribution(found: Attribution, path: Path, *, title: str, row: int = 0, position: int = -1, most: int = 24) -> None:
    """The largest shares of a logit as bars, in the order of computation; the others together."""
    lines = found.lines(row, position)
    kept = set(sorted(range(len(lines)), key=lambda at: -abs(lines[at][1]))[:most])
    shown = [lines[at] for at in sorted(kept)]
    if rest := [lines[at][1] for at in range(len(lines)) if at not in kept]:
        shown.append((f"{len(rest)} more", sum(rest)))
    with drawing(path, 6.0, max(2.2, 0.2 * len(shown) + 1.2)) as figure:
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=10)
        axes = figure.subplots()
        places = list(range(len(shown)))[::-1]
        axes.barh(places, [share for _, share in shown], color=line_of(0)["color"])
        axes.set_yticks(places, [name for name, _ in shown], fontsize=6)
        axes.axvline(0, color=FAINT, linewidth=0.8)
        axes.set_xlabel("share of the logit")
        axes.grid(axis="x")


def draw_patterns(maps: Mapping[str, Tensor], words: Sequence[str], path: Path, *, title: str) -> None:
    """The attention weights of the first row, a square per head: queries down, keys across; `words`: its tokens."""
    named = layers_said(list(maps))
    heads = [
        (f"{named[layer]}, head {head}", weights[0, head])
        for layer, weights in maps.items()
        for head in range(weights.shape[1])
    ]
    shown = heads[:MOST_MAPS]
    columns = min(4, len(shown))
    rows = math.ceil(len(shown) / columns)
    more = f"; {len(heads) - len(shown)} more heads" if len(heads) > len(shown) else ""
    with drawing(path, 3.2 * columns, 3.2 * rows + 0.4) as figure:
        figure.suptitle(title + more, x=0.01, ha="left", fontweight="bold", fontsize=10)
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        drawn = axes[: len(shown)]
        for place, (name, weights) in zip(drawn, shown, strict=True):
            image = place.imshow(weights.float().cpu().numpy(), cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
            place.set_title(name, fontsize=6.5)
            place.set_xlabel("key", fontsize=6)
            place.set_ylabel("query", fontsize=6)
            if len(words) <= WIDE and weights.shape[0] == weights.shape[1] == len(words):
                place.set_xticks(range(len(words)), words, rotation=90, fontsize=4.5)
                place.set_yticks(range(len(words)), words, fontsize=4.5)
            else:
                place.tick_params(labelsize=6)
        for place in axes[len(shown) :]:
            place.remove()
        figure.colorbar(image, ax=drawn, label="attention weight", shrink=0.8)


def layers_said(paths: Sequence[str]) -> dict[str, str]:
    """Paths of weights in words: `layer 0`; with the stack and the branch where several stacks or branches are among them."""
    found = {path: match for path in paths if (match := WEIGHTS.fullmatch(path))}
    stacks, branches = (len({each[part] for each in found.values()}) > 1 for part in ("stack", "branch"))

    def said(match: re.Match[str]) -> str:
        stack = f"{match['stack']} " if stacks else ""
        branch = f", {match['branch']}" if branches else ""
        return f"{stack}{match['kind']} {match['number']}{branch}".replace("_", " ")

    return {path: said(found[path]) if path in found else path for path in paths}


def draw_circuit(found: Circuit, path: Path, *, title: str) -> None:
    """Nodes from the input below to the output on top, and the edges that stay, the wider the more their cut costs; q, k, v
    before a head: into its query, key, value."""
    levels: dict[int, list[str]] = {}
    place_of = {edge.receiver: edge.place for edge, _ in found.edges}
    for name in found.nodes:
        levels.setdefault(place_of.get(name, -1), []).append(name)
    at = {
        name: ((number + 1) / (len(names) + 1), level)
        for level, names in enumerate(levels[place] for place in sorted(levels))
        for number, name in enumerate(names)
    }
    most = max((abs(cost) for _, cost in found.edges), default=0.0) or 1.0
    with drawing(path, max(4.0, 1.7 * max(map(len, levels.values()), default=1)), 1.1 * len(levels) + 1.0) as figure:
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=10)
        axes = figure.subplots()
        for edge, cost in found.edges:
            (x, y), (to_x, to_y) = at[edge.sender], at[edge.receiver]
            wide = 0.6 + 3.0 * abs(cost) / most
            axes.plot([x, to_x], [y, to_y], color=line_of(0)["color"], linewidth=wide, alpha=0.6, zorder=1)
        for (sender, receiver), sides in _sides(found).items():
            (x, y), (to_x, to_y) = at[sender], at[receiver]
            near = (0.25 * x + 0.75 * to_x, 0.25 * y + 0.75 * to_y)
            axes.text(*near, sides, ha="center", va="center", fontsize=5.5, color=INK, zorder=3)
        for name, (x, y) in at.items():
            boxed = {"boxstyle": "round", "facecolor": "white", "edgecolor": INK, "linewidth": 0.8}
            axes.text(x, y, name, ha="center", va="center", fontsize=6.5, bbox=boxed, zorder=2)
        if not at:
            axes.text(0.5, 0, f"none of {found.considered} edges stays", ha="center", va="center", fontsize=8, color=INK)
        axes.set_xlim(0, 1)
        axes.set_ylim(-0.5, max(1, len(levels)) - 0.5)
        axes.axis("off")


def _sides(found: Circuit) -> dict[tuple[str, str], str]:
    """The first letters of the inputs into which edges lead from a sender to a receiver."""
    sides: dict[tuple[str, str], str] = {}
    for edge, _ in found.edges:
        sides[edge.sender, edge.receiver] = sides.get((edge.sender, edge.receiver), "") + edge.into[:1]
    return sides
