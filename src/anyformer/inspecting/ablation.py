"""Ablations: what a metric loses without a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor

from anyformer.describe import InputError, did_you_mean
from anyformer.inspecting.activation_patching import PatchingGrid
from anyformer.inspecting.call_inputs import CallInputs
from anyformer.inspecting.metrics import Metric
from anyformer.inspecting.places import writers
from anyformer.inspecting.sweep import checked_paths, kept_values, swept
from anyformer.model.transformer import Transformer


def zeros(value: Tensor, letters: str) -> Tensor:
    """0, which a model may never have seen there."""
    return torch.zeros_like(value)


def means(value: Tensor, letters: str) -> Tensor:
    """The mean over rows and query positions of the reference, everywhere."""
    over = [at for at, letter in enumerate(letters) if letter in "BT"]
    return value.mean(over, keepdim=True).expand_as(value)


def resampled(value: Tensor, letters: str) -> Tensor:
    """The value of the reference's row."""
    return value


WAYS: Mapping[str, Callable[[Tensor, str], Tensor]] = MappingProxyType({"zero": zeros, "mean": means, "resample": resampled})
"""What stands in a value's place."""


def ablation(
    model: Transformer,
    given: Tensor | CallInputs,
    metric: Metric,
    paths: Sequence[str] | None = None,
    *,
    way: str = "mean",
    by: str = "",
    reference: Tensor | CallInputs | None = None,
) -> PatchingGrid:
    """The metric with each value at `paths` replaced by one that says nothing of its row: `zero`, `mean` or `resample`.

    `mean`: over rows and positions of the reference; `resample`: the value of the same row and position of it. `paths`: by
    default what every sublayer adds to the stream. `by`: letters of their values whose places are replaced one at a time, such
    as `H` for heads. `reference`: the prompts whose values are taken, of the same shape; by default the same ones, of which
    `resample` takes the row before, the last one's for the first. Raises `InputError` where that row is the same.
    """
    if way not in WAYS:
        raise InputError(f"there is no way {way!r} of ablation{did_you_mean(way, sorted(WAYS))}")
    prompt = CallInputs.of(given)
    other = prompt if reference is None else CallInputs.of(reference)
    if reference is not None:
        prompt.exchanges_with(other)
    elif way == "resample":
        other = prompt.rolled()
    chosen = checked_paths(model, paths or [writer.output for writer in writers(model)], by)
    values, _ = kept_values(model, other, chosen)
    _, start_B = kept_values(model, prompt, (), metric)
    letters = {path: model.watchable()[path].letters for path in chosen}
    instead = {path: WAYS[way](values[path], letters[path]) for path in chosen}
    return PatchingGrid(by, start_B, None, {path: swept(model, prompt, metric, path, instead[path], by) for path in chosen})
