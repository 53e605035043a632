"""Activation patching: which values of a clean prompt bring its answer back when they stand in a corrupted one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.metrics import Metric
from anyformer.inspecting.places import streams
from anyformer.inspecting.sweep import axes_of, checked_paths, kept_values, largest_first, summed_but, swept
from anyformer.inspecting.tables import table_of
from anyformer.model.transformer import Transformer

if TYPE_CHECKING:
    from rich.table import Table

SEEN = 5e-5
"""The smallest effect that a table with four decimals shows."""


@dataclass(frozen=True, eq=False)
class PatchingGrid:
    """A metric of B prompts, and what it becomes when part of a value is replaced.

    `by`: the letters whose places are replaced one by one. `start_B`: the metric before; `goal_B`: that of the prompt from
    which the values are, None where they are from none. `changed`: by path the metric behind the replacement, (places along the
    first letter of `by`, ..., B). `estimated`: whether it is a first-order estimate.
    """

    by: str
    start_B: Tensor
    goal_B: Tensor | None
    changed: Mapping[str, Tensor]
    estimated: bool = False

    def effect(self, path: str) -> Tensor:
        """The mean change of the metric over rows, place by place."""
        return (self.changed[path] - self.start_B).mean(-1)

    def restored(self, path: str) -> Tensor:
        """The share of the way from the start to the goal, place by place: 0 no effect, 1 all of it; of means over rows."""
        assert self.goal_B is not None, "asked where there is a goal"
        return self.effect(path) / (self.goal_B - self.start_B).mean()

    def figures(self, path: str) -> Tensor:
        """What is shown of a path: the share that is restored, or without a goal the effect."""
        return self.effect(path) if self.goal_B is None else self.restored(path)

    def table(self, word: Callable[[int], str] = str, *, most: int = 20) -> Table:
        """The places with the largest effects, without those that have none; `word` says a position."""
        found = [
            (path, at, float(figures[at]))
            for path in self.changed
            for figures in [self.figures(path)]
            for at in (largest_first(figures, most) if self.by else [()])
        ]
        found = [each for each in found if abs(each[2]) >= SEEN]
        seen = sum(int((self.figures(path).abs() >= SEEN).sum()) for path in self.changed)
        cut = f", {most} of {seen:,}" if seen > most else ""
        found.sort(key=lambda each: -abs(each[2]))
        said = {"T": "position", "H": "head"}
        heads = ("path", *(said.get(letter, letter) for letter in self.by), "effect" if self.goal_B is None else "restored")
        rows = [
            (path, *(word(place) if letter == "T" else str(place) for letter, place in zip(self.by, at, strict=True)),
             f"{figure:.4f}")
            for path, at, figure in found[:most]
        ]  # fmt: skip
        return table_of(f"{'estimated ' if self.estimated else ''}effect of replaced values{cut}", heads, rows)


def activation_patching(
    model: Transformer,
    clean: Tensor | CallInputs,
    corrupted: Tensor | CallInputs,
    metric: Metric,
    paths: Sequence[str] | None = None,
    *,
    by: str = "T",
) -> PatchingGrid:
    """The metric of the corrupted prompt with values of the clean one, place by place (Meng et al. 2022, arXiv 2202.05262).

    `paths`: by default the residual stream before the first layer and behind every one. `by`: letters of the paths' values:
    `T` position by position, `H` head by head, `HT` both, "" whole values. One forward pass per place, several in a batch.
    """
    chosen = checked_paths(model, paths or streams(model), by)
    good, bad = CallInputs.of(clean), CallInputs.of(corrupted)
    good.exchanges_with(bad)
    values, goal_B = kept_values(model, good, chosen, metric)
    _, start_B = kept_values(model, bad, (), metric)
    return PatchingGrid(by, start_B, goal_B, {path: swept(model, bad, metric, path, values[path], by) for path in chosen})


def attribution_patching(
    model: Transformer,
    clean: Tensor | CallInputs,
    corrupted: Tensor | CallInputs,
    metric: Metric,
    paths: Sequence[str] | None = None,
    *,
    by: str = "T",
) -> PatchingGrid:
    """`activation_patching` to first order, of all places in two forward passes and a backward pass (Nanda 2023).

    The metric m behind a replacement of a by a' is taken for m + (a' - a) dm/da at the corrupted prompt, which is the truth as
    far as m is linear between them.
    """
    chosen = checked_paths(model, paths or streams(model), by)
    good, bad = CallInputs.of(clean), CallInputs.of(corrupted)
    good.exchanges_with(bad)
    values, goal_B = kept_values(model, good, chosen, metric)
    with torch.enable_grad(), model.watch(*chosen, gradients=True) as seen:
        start_B = metric(bad.logits(model))
        start_B.sum().backward()  # type: ignore[no-untyped-call]
    changed = {}
    for path in chosen:
        slope = seen.gradients.get(path, torch.zeros_like(values[path]))  # absent where no gradient passes
        steps = (values[path] - seen[path].detach()) * slope
        moved = summed_but(steps, axes_of(model, path, by))
        changed[path] = start_B.detach() + moved
    return PatchingGrid(by, start_B.detach(), goal_B, changed, estimated=True)
