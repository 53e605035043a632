"""What the steps from one architecture to another cost: the figures after every step, and what it adds to those before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anyformer.costs.difference import Change, details
from anyformer.costs.sheet import CostSheet
from anyformer.costs.staircase import Stairs, StairStep
from anyformer.model import Architecture

StepFigures = Mapping[str, float | None]
"""Quantities by name; None where there is none."""


@dataclass(frozen=True)
class PricedStairStep:
    """`figures` of the architecture after a step, and what the step adds (`deltas`)."""

    step: StairStep
    figures: StepFigures
    deltas: StepFigures

    @property
    def words(self) -> tuple[Change, ...]:
        """What the step changes, as `anyformer diff` says it."""
        return details(self.step.before, self.step.after)


@dataclass(frozen=True)
class PricedStairs:
    """Stairs with the figures of the architecture where they begin, and of every step; the last's are the other end's."""

    stairs: Stairs
    start: StepFigures
    steps: tuple[PricedStairStep, ...]

    @property
    def end(self) -> StepFigures:
        """The figures where they end."""
        return self.steps[-1].figures if self.steps else self.start


def priced_stairs(start: Architecture, to: Architecture, price: Callable[[Architecture], StepFigures]) -> PricedStairs:
    """The stairs from one architecture to another; `price` gives the figures of one."""
    stairs = Stairs.between(start, to)
    priced, here = list[PricedStairStep](), price(start)
    first = here
    for step in stairs.steps:
        new = price(step.after)
        priced.append(PricedStairStep(step, new, {name: _less(new[name], here[name]) for name in new}))
        here = new
    return PricedStairs(stairs, first, tuple(priced))


def step_figures(sheet: CostSheet) -> dict[str, float | None]:
    """Parameters, exact FLOPs and element-wise operations per token, and bytes of decode state and of weights, of a sheet."""
    trained, prompt = sheet.of("train"), sheet.of("prefill")
    return {
        "parameters": sheet.params.total,
        "active": sheet.params.active,
        "flops_per_token": prompt.flops.forward.exact / prompt.tokens,
        "training_flops_per_token": trained.flops.total.exact / trained.tokens,
        "elementwise_per_token": sum(work.exact for work in prompt.elementwise.values()) / prompt.tokens,
        "state_per_token": prompt.state_bytes_per_token,
        "state": prompt.state_bytes,
        "weights": sheet.weights["bf16"],
    }


def _less(new: float | None, old: float | None) -> float | None:
    return None if new is None or old is None else new - old
