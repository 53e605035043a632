"""The coordinate check: whether what a model computes changes as much at every size while it learns (muP, appendix D.1).

Yang et al. 2022, arXiv 2203.03466: under the maximal update parametrisation the numbers of each activation, and of the logits,
are as large at every width after a few updates; under the usual one some of them grow. The same is asked of depths (CompleteP,
Dey et al. 2025, arXiv 2505.01618), of the stream after the first, the middle and the last layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor, nn

from anyformer.model import Architecture
from anyformer.model.at_width import at_width
from anyformer.model.transformer import Transformer, build
from anyformer.pictures.style import drawing, line_of
from anyformer.resizing.sizes import resized, sizes
from anyformer.training.optimiser import build_optimiser
from anyformer.tuning import Optimiser

BATCH, LENGTH = 4, 16
LOGITS = "logits"


@dataclass(frozen=True)
class Coordinates:
    """Of a model of one size: for each activation by name, the mean |x_t - x_0| of its numbers after t = 1, 2, ... updates."""

    size: int
    """Its width, or its layers."""
    changes: Mapping[str, tuple[float, ...]]


def coordinate_check(
    architecture: Architecture, optimiser: Optimiser, widths: Sequence[int], *, updates: int = 4, seeds: Sequence[int] = (0,)
) -> tuple[Coordinates, ...]:
    """The changes of the stream after each layer, and of the logits, at each width; means over seeds of model and tokens.

    The architecture is a decoder of tokens; at other widths it is `at_width`. Every update learns the same random tokens.
    """
    return _checked({width: at_width(architecture, width) for width in widths}, optimiser, updates, seeds)


def depth_check(
    architecture: Architecture, optimiser: Optimiser, depths: Sequence[int], *, updates: int = 4, seeds: Sequence[int] = (0,)
) -> tuple[Coordinates, ...]:
    """As `coordinate_check`, at each number of layers: the changes after the first, the middle and the last of them."""
    now = sizes(architecture)
    found = _checked({depth: resized(architecture, replace(now, depth=depth)) for depth in depths}, optimiser, updates, seeds)
    return tuple(replace(each, changes=_along(each.size, each.changes)) for each in found)


def _along(depth: int, changes: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    places = {"first layer": 0, "middle layer": (depth - 1) // 2, "last layer": depth - 1}
    return {**{place: changes[f"layer {number}"] for place, number in places.items()}, LOGITS: changes[LOGITS]}


def _checked(
    architectures: Mapping[int, Architecture], optimiser: Optimiser, updates: int, seeds: Sequence[int]
) -> tuple[Coordinates, ...]:
    """The changes of each architecture by its size, as means over seeds."""
    found = []
    for size, each in architectures.items():
        made = [_changes(each, optimiser, updates, seed) for seed in seeds]
        means = {name: tuple(fmean(each) for each in zip(*(one[name] for one in made), strict=True)) for name in made[0]}
        found.append(Coordinates(size, means))
    return tuple(found)


def growth(found: Sequence[Coordinates]) -> dict[str, float]:
    """For each activation the exponent k of its change after the last update ~ size^k, by least squares of logarithms."""
    all_sizes = [math.log(each.size) for each in found]
    middle = fmean(all_sizes)
    exponents = {}
    for name in found[0].changes:
        changes = [math.log(each.changes[name][-1]) for each in found]
        covered = sum((x - middle) * y for x, y in zip(all_sizes, changes, strict=True))
        exponents[name] = covered / sum((x - middle) ** 2 for x in all_sizes)
    return exponents


def draw_coordinates(
    checks: Mapping[str, Sequence[Coordinates]], path: Path, names: Sequence[str], size: str = "width"
) -> None:
    """A row of panels for each check by its title, a panel for each activation: the change against the size, a line for each
    number of updates."""
    with drawing(path, 3.6 * len(names), 2.9 * len(checks)) as figure:
        panels = figure.subplots(len(checks), len(names), squeeze=False, sharey="col", sharex=True)
        for row, (title, found) in zip(panels, checks.items(), strict=True):
            for axes, name in zip(row, names, strict=True):
                for update in range(len(found[0].changes[name])):
                    changes = [each.changes[name][update] for each in found]
                    said = f"{update + 1} update{'s' if update else ''}"
                    axes.plot([each.size for each in found], changes, marker="o", markersize=3, label=said, **line_of(update))
                axes.set_xscale("log", base=2)
                axes.set_yscale("log")
                axes.set_xticks([each.size for each in found])
                axes.xaxis.set_major_formatter("{x:.0f}")
                axes.yaxis.set_major_formatter("{x:g}")
                axes.set_title(f"{title}: {name}")
                axes.grid()
        for axes in panels[-1]:
            axes.set_xlabel(size)
        for row in panels:
            row[0].set_ylabel("mean |x(t) - x(0)|")
        figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _changes(architecture: Architecture, optimiser: Optimiser, updates: int, seed: int) -> dict[str, list[float]]:
    model = build(architecture, seed=seed).train()
    changing = build_optimiser(optimiser, model)
    assert architecture.embedding.symbols is not None, "a decoder of tokens"
    tokens = torch.randint(architecture.embedding.symbols, (BATCH, LENGTH), generator=torch.Generator().manual_seed(seed))
    targets = tokens.roll(-1, 1)
    first: dict[str, Tensor] = {}
    changes: dict[str, list[float]] = {}
    for update in range(updates + 1):
        seen = _seen(model, tokens)
        if update == 0:
            first = {name: each.detach() for name, each in seen.items()}
        for name, each in seen.items() if update else ():
            changes.setdefault(name, []).append(float((each.detach() - first[name]).abs().mean()))
        nn.functional.cross_entropy(seen[LOGITS].flatten(0, 1), targets.flatten()).backward()  # type: ignore[no-untyped-call]
        changing.step()
        changing.zero_grad()
    return changes


def _seen(model: Transformer, tokens: Tensor) -> dict[str, Tensor]:
    """The stream after each layer, and the logits, of a call."""
    streams: list[Tensor] = []
    with ExitStack() as hooks:
        for layer in model.get_submodule(model.output).layers:  # type: ignore[union-attr]
            hooks.callback(layer.register_forward_hook(lambda _, given, output: streams.append(output)).remove)
        logits = model(tokens)
    return {**{f"layer {number}": stream for number, stream in enumerate(streams)}, LOGITS: logits}
