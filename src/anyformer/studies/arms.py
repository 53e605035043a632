"""The runs that a study compares: each arm at matched sizes, with an equal budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anyformer.costs import Budget, UnmatchedError, budget_of
from anyformer.costs.match import match
from anyformer.costs.staircase import stairs
from anyformer.describe import DescriptionError, diff
from anyformer.operations import Shape
from anyformer.resizing.sizes import Sizes, sizes
from anyformer.studies.study import QUANTITIES, SECONDS, Arm, Matching, Study
from anyformer.training import Run
from anyformer.training.priced import flops_of

Difference = tuple[str, Any, Any]
"""A path, the value of the base, and that of the arm."""
NEAR = 0.05
"""How near to a multiple of its parameters a smaller size comes; what it has is what counts."""
TARGETS = ("data.", "objective.", "evaluation.")
"""Beginnings of paths to fields of a run on which it depends what the held-out loss is a loss of."""


@dataclass(frozen=True)
class Moved:
    """What matching made of an arm: sizes before and after, the costs that were matched by their word, beside the base's, and
    the greatest relative distance."""

    before: Sizes
    after: Sizes
    costs: Mapping[str, tuple[float, float]]
    off: float

    def __str__(self) -> str:
        names = [name for name in ("width", "depth", "ffn") if getattr(self.before, name) != getattr(self.after, name)]
        moved = ", ".join(f"{name} {getattr(self.before, name):,} -> {getattr(self.after, name):,}" for name in names)
        timed = "".join(
            f"; {1e3 * arm:.3g} ms an update, the base {1e3 * base:.3g} ms, measured in turns"
            for word, (base, arm) in self.costs.items()
            if word == SECONDS
        )
        return f"{moved or 'nothing moved'}; {self.off:.2%} off{timed}"


@dataclass(frozen=True)
class ResolvedArm:
    """An arm as it is trained, but for seed and tuned value; `differences`: from the base, before sizes were matched. `size`:
    as a multiple of the whole."""

    name: str
    run: Run
    differences: tuple[Difference, ...]
    moved: Moved | None = None
    size: float = 1.0

    @property
    def tokens(self) -> int:
        """Tokens of training."""
        assert self.run.steps is not None
        return self.run.steps * self.run.tokens

    @property
    def flops(self) -> int:
        """FLOPs of training."""
        assert self.run.steps is not None
        return self.run.steps * flops_of(self.run)

    @property
    def parameters(self) -> int:
        """Parameters stored."""
        return self.run.architecture.folded_cost(Shape(source=1)).parameters

    @property
    def other_targets(self) -> tuple[str, ...]:
        """Paths of what makes its held-out loss a loss of something else than the base's."""
        return tuple(path for path, _, _ in self.differences if f"{path}.".startswith(TARGETS))


def resolve_arms(study: Study, timed: Callable[[Run], tuple[Run, Moved]] | None = None) -> tuple[ResolvedArm, ...]:
    """The base, then every arm, matched and with the study's budget. Raises `UnmatchedError` where no sizes match.

    `timed`: matches a run by the clock; without it a study that asks for that has its arms as they are written.
    """
    base = study.base
    written = dict(_written(study))
    budget = None if study.match is None or study.match.timed else _budget(study.match, base)
    found = [ResolvedArm(study.base_name, base, ())]
    for name, arm in written.items():
        try:
            run = arm.applied(base)
            differences = tuple(diff(base, run))
            moved = None
            if study.match is not None and budget is not None:
                run, moved = _matched(run, study.match, budget)
            elif study.match is not None and timed is not None:
                run, moved = timed(run)
            found.append(ResolvedArm(name, _budgeted(run, study, base), differences, moved))
        except UnmatchedError as error:
            raise UnmatchedError(f"arms.{name}: {error} (match.move, match.multiple)", error.nearest) from None
    return tuple(found)


def smaller_arms(study: Study, arms: Sequence[ResolvedArm], size: float) -> tuple[ResolvedArm, ...]:
    """The arms at a smaller size: the base with `size` times its parameters, the others as much of it as they have at the
    whole, or matched to it. Raises `UnmatchedError` where no sizes come near."""
    matching = study.match or Matching(by=("params",))
    base = _scaled(arms[0], size, matching, study)
    budget = None if study.match is None else _budget(study.match, base.run)
    found = [base]
    for arm in arms[1:]:
        if study.match is None or budget is None:
            small = _scaled(arm, size, matching, study)
        else:
            try:
                run, moved = _matched(arm.run, study.match, budget)
            except UnmatchedError as error:
                raise UnmatchedError(f"arms.{arm.name}, at {size:g} of its size: {error}", error.nearest) from None
            small = replace(arm, run=run, moved=moved, size=size)
        found.append(replace(small, run=_budgeted(small.run, study, base.run)))
    return tuple(found)


def _scaled(arm: ResolvedArm, size: float, matching: Matching, study: Study) -> ResolvedArm:
    """An arm with `size` times its parameters, within `NEAR`, and the tokens that go with them."""
    before = budget_of(arm.run.architecture, length=arm.run.length).parameters
    assert before is not None
    assert arm.run.steps is not None
    budget = Budget(parameters=round(size * before), length=arm.run.length)
    try:
        found = match(arm.run.architecture, budget, move=matching.move, multiple=matching.multiple, tolerance=NEAR)
    except UnmatchedError as error:
        raise UnmatchedError(
            f"{arm.name}, at {size:g} of its size: {error} (match.move, match.multiple)", error.nearest
        ) from None
    steps = arm.run.steps
    if study.smaller == "proportional":
        steps = max(1, round(steps * found.costs["parameters"] / before))
    return replace(arm, run=arm.run.but(architecture=found.architecture, steps=steps), moved=None, size=size)


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


def _budgeted(run: Run, study: Study, base: Run) -> Run:
    """The run with as many updates as make its tokens, or its FLOPs, those of the base, to the nearest update."""
    assert base.steps is not None
    if study.budget == "flops":
        steps = round(base.steps * flops_of(base) / flops_of(run))
    else:
        steps = round(base.steps * base.tokens / run.tokens)
    return run.but(steps=max(1, steps))
