"""Where two models depart: inputs and outputs of modules that hold the same weights, in the order of computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from anyformer.huggingface.verifying import TOLERANCE
from anyformer.porting.explaining import Fit


@dataclass(frozen=True)
class Probe:
    """One comparison: the module of ours, whether what goes in or what comes out, and the largest difference, relative to the
    largest value."""

    where: str
    side: str
    difference: float

    @property
    def agrees(self) -> bool:
        return self.difference <= TOLERANCE

    @property
    def layer(self) -> str:
        """The layer it stands in, or the module."""
        words = self.where.split(".")
        return f"{words[0]} layer {words[2]}" if len(words) > 2 and words[1] == "layers" else words[0]


@dataclass(frozen=True)
class ProbedRun:
    """What went into modules and came out, by name, in the order in which they were called."""

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    order: tuple[str, ...]


def watched(model: nn.Module, run: Callable[[], Tensor]) -> tuple[Tensor, ProbedRun]:
    """The logits of a run, and what every module saw at its first call."""
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}
    order: list[str] = []

    def before(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
            found = next((each for each in (*given, *named.values()) if isinstance(each, Tensor)), None)
            if found is not None and name not in inputs:
                inputs[name] = found.detach().clone()
                order.append(name)

        return hook

    def after(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, given: Any, output: Any) -> None:
            found = output[0] if isinstance(output, tuple) else output
            if isinstance(found, Tensor) and name not in outputs:
                outputs[name] = found.detach().clone()

        return hook

    handles = [module.register_forward_pre_hook(before(name), with_kwargs=True) for name, module in model.named_modules()]
    handles += [module.register_forward_hook(after(name)) for name, module in model.named_modules()]
    try:
        with torch.no_grad():
            logits = run()
    finally:
        for handle in handles:
            handle.remove()
    return logits, ProbedRun(inputs, outputs, tuple(order))


def compared(pairs: Mapping[str, str], mine: ProbedRun, theirs: ProbedRun) -> tuple[Probe, ...]:
    """The probes of all modules of which both models have one, in the order of our computation."""
    found: list[Probe] = []
    for name in mine.order:
        if name not in pairs:
            continue
        other = pairs[name]
        for side, here, there in (("input", mine.inputs, theirs.inputs), ("output", mine.outputs, theirs.outputs)):
            if name in here and other in there and here[name].numel() == there[other].numel():
                found.append(Probe(name, side, gap(here[name], there[other])))
    return tuple(found)


def pairs_of(fit: Fit, ours: nn.Module, theirs: ProbedRun) -> dict[str, str]:
    """Name of a module of ours -> that of the reference's, of those that hold one weight of one line."""
    short = {name.replace(".sublayer", ""): name for name, _ in ours.named_modules()}
    found: dict[str, str] = {}
    for line in fit.lines:
        file = fit.matched.get(line.module.name)
        if file is None or len(line.source) != 1:
            continue
        for layer in line.module.layers:
            own = f"{line.stack}.layers.{layer}.{line.source[0]}" if line.stack else line.source[0]
            stored = file.replace("{i}", str(layer))
            other = next((name for name in theirs.order if name == stored or name.endswith(f".{stored}")), None)
            other = other or next((name for name in theirs.order if stored.endswith(f".{name}") and "." in name), None)
            if own in short and other is not None:
                found[short[own]] = other
    return found


def gap(mine: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest value; infinite where they have other sizes, or are not numbers."""
    if mine.numel() != other.numel():
        return float("inf")
    difference = (mine.float() - other.reshape(mine.shape).float()).abs().max() / other.float().abs().max().clamp(min=1e-30)
    return float(difference) if bool(torch.isfinite(difference)) else float("inf")
