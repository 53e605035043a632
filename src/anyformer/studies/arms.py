"""The runs that a study compares: each arm at matched sizes, with an equal budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from anyformer.costs import Budget, UnmatchedError, budget_of, match
from anyformer.describe import DescriptionError, diff
from anyformer.resizing.sizes import Sizes, sizes
from anyformer.studies.staircase import stairs
from anyformer.studies.study import QUANTITIES, Arm, Matching, Study
from anyformer.training import Run
from anyformer.training.priced import flops_of

Difference = tuple[str, Any, Any]
"""A path, the value of the base, and that of the arm."""
TARGETS = ("data.", "objective.", "evaluation.")
"""Beginnings of paths to fields of a run on which it depends what the held-out loss is a loss of."""


@dataclass(frozen=True)
class Moved:
    """What matching made of an arm: sizes before and after, the costs that were matched by their word, beside the base's, and
    the greatest relative distance."""

    before: Sizes
    after: Sizes
    costs: Mapping[str, tuple[int, int]]
    off: float

    def __str__(self) -> str:
        names = [name for name in ("width", "depth", "ffn") if getattr(self.before, name) != getattr(self.after, name)]
        moved = ", ".join(f"{name} {getattr(self.before, name):,} -> {getattr(self.after, name):,}" for name in names)
        return f"{moved or 'nothing moved'}; {self.off:.2%} off"


@dataclass(frozen=True)
class ResolvedArm:
    """An arm as it is trained, but for seed and tuned value; `differences`: from the base, before sizes were matched."""

    name: str
    run: Run
    differences: tuple[Difference, ...]
    moved: Moved | None = None

    @property
    def tokens(self) -> int:
        """Tokens of training."""
        assert self.run.steps is not None
        return self.run.steps * self.run.batch * self.run.length

    @property
    def flops(self) -> int:
        """FLOPs of training."""
        assert self.run.steps is not None
        return self.run.steps * flops_of(self.run)

    @property
    def other_targets(self) -> tuple[str, ...]:
        """Paths of what makes its held-out loss a loss of something else than the base's."""
        return tuple(path for path, _, _ in self.differences if f"{path}.".startswith(TARGETS))


def resolve_arms(study: Study) -> tuple[ResolvedArm, ...]:
    """The base, then every arm, matched and with the study's budget. Raises `UnmatchedError` where no sizes match."""
    base = study.base
    written = dict(_written(study))
    budget = None if study.match is None else _budget(study.match, base)
    found = [ResolvedArm(study.base_name, base, ())]
    for name, arm in written.items():
        try:
            run = arm.applied(base)
            differences = tuple(diff(base, run))
            moved = None
            if study.match is not None and budget is not None:
                run, moved = _matched(run, study.match, budget)
            found.append(ResolvedArm(name, _budgeted(run, study), differences, moved))
        except UnmatchedError as error:
            raise UnmatchedError(f"arms.{name}: {error} (match.move, match.multiple)", error.nearest) from None
    return tuple(found)


def _written(study: Study) -> Iterator[tuple[str, Arm]]:
    """The arms as they are written, and those of the staircase."""
    yield from study.arms.items()
    if study.staircase is not None:
        for name, made in stairs(study.base.architecture, study.staircase.to, without=study.staircase.without).items():
            if name in study.arms:
                raise DescriptionError(f"arms.{name}: the staircase makes an arm of this name: give it another one")
            yield name, Arm(architecture=made)


def _budget(matching: Matching, base: Run) -> Budget:
    """What the base costs, as far as arms are matched in it."""
    costs = budget_of(base.architecture, length=base.length)
    return Budget(**{QUANTITIES[word]: getattr(costs, QUANTITIES[word]) for word in matching.by}, length=base.length)


def _matched(run: Run, matching: Matching, budget: Budget) -> tuple[Run, Moved]:
    found = match(run.architecture, budget, move=matching.move, multiple=matching.multiple, tolerance=matching.tolerance)
    words = {target: word for word, target in QUANTITIES.items()}
    costs = {words[name]: (budget.targets[name], cost) for name, cost in found.costs.items()}
    before, after = sizes(run.architecture), found.sizes
    return run.but(architecture=found.architecture), Moved(before, after, costs, found.error)


def _budgeted(run: Run, study: Study) -> Run:
    """The run with as many updates as make its tokens, or its FLOPs, those of the base, to the nearest update."""
    base = study.base
    assert base.steps is not None
    if study.budget == "flops":
        steps = round(base.steps * flops_of(base) / flops_of(run))
    else:
        steps = round(base.steps * base.batch * base.length / (run.batch * run.length))
    return run.but(steps=max(1, steps))
