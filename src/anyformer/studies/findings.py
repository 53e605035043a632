"""What a study found: verdicts, and for every arm its quality beside its costs. What `report.json` holds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from anyformer.costs import cost
from anyformer.describe import brief, read_json
from anyformer.describe.value import Value, as_data
from anyformer.evaluation.intervals import Interval
from anyformer.files import write_text
from anyformer.studies.arms import ResolvedArm
from anyformer.studies.forecast import predicted_bytes
from anyformer.studies.ladders import Climb, climb
from anyformer.studies.length_verdicts import AtLength, at_lengths
from anyformer.studies.outcome import TrialOutcome
from anyformer.studies.running import Ran
from anyformer.studies.statistics import ArmComparison, compare, interval
from anyformer.studies.trained import Unread
from anyformer.studies.trials import Passed, Trial, TunedArm
from anyformer.training.journal import ENVIRONMENT, RUN

REPORT = "report.json"
Points = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Costs:
    """Of an arm: parameters stored and used by a token, FLOPs of training (all updates), bytes of decode state per token,
    predicted memory of a trial; measured tokens per second and bytes of tensors, medians over its trials, None where no trial
    finished. Speeds are of trials that shared a machine, so that they compare roughly."""

    parameters: int
    active: int
    flops: int
    state_bytes_per_token: int
    predicted_bytes: int
    tokens_per_second: float | None
    memory: float | None


@dataclass(frozen=True)
class ArmFindings:
    """An arm in the final trials. `numbers`: the metric by seed, None where the trial diverged; `quality`: its mean over
    finished seeds with the t interval at 1 - alpha; `differences` from the base in words; `moved`: by matching; `learnt`: the
    share of what the best arm learnt from context, None where that is not known."""

    name: str
    differences: tuple[tuple[str, str, str], ...]
    moved: str
    other_targets: tuple[str, ...]
    updates: int
    tokens: int
    costs: Costs
    value: int | float | None
    tuned: TunedArm | None
    numbers: Mapping[int, float | None]
    quality: Interval | None
    failed: Mapping[int, str]
    diverged: Mapping[int, str]
    largest_gradient: float | None
    spikes: int
    curves: Mapping[int, Points]
    training: Mapping[int, Points]
    learnt: float | None = None


@dataclass(frozen=True)
class Findings:
    """All that a report shows. `commands`: of each trial by the name of its directory; `paired`: whether all arms of each seed
    had the same batches; `unread`: by arm, what reads nothing and its loss, of a study of losses."""

    title: str
    question: str
    metric: str
    better: str
    alpha: float
    matched: str
    budget: str
    tuning: str
    tuned_path: str | None
    seeds: tuple[int, ...]
    base: str
    arms: tuple[ArmFindings, ...]
    comparisons: tuple[ArmComparison, ...]
    paired: bool
    commands: Mapping[str, str]
    runs: Mapping[str, Mapping[str, Any]]
    environment: Mapping[str, Any]
    notes: tuple[str, ...]
    study: Mapping[str, Any]
    gates: tuple[Passed, ...] = ()
    climb: Climb | None = None
    lengths: tuple[AtLength, ...] = ()
    unread: Mapping[str, Unread] = field(default_factory=dict)

    @property
    def arm(self) -> Mapping[str, ArmFindings]:
        return {arm.name: arm for arm in self.arms}

    def write(self, path: Path) -> None:
        """`report.json`: every number of the report; infinite and undefined ones are null."""
        write_text(path, json.dumps(_plain(asdict(self)), indent=1, ensure_ascii=False) + "\n")


def findings(ran: Ran) -> Findings:
    """What the trials of a study tell."""
    study = ran.study
    arms = tuple(_arm(ran, arm) for arm in ran.arms)
    numbers = {arm.name: _by_seed(ran, arm.name) for arm in ran.arms}
    base = study.base_name
    others = {name: found for name, found in numbers.items() if name != base}
    compared = compare(numbers[base], others, lower=study.better == "lower", alpha=study.alpha)
    return Findings(
        title=titled(ran),
        question=study.title,
        metric=study.metric,
        better=study.better,
        alpha=study.alpha,
        matched=_matched(ran),
        budget=f"equal {'tokens' if study.budget == 'tokens' else 'training FLOPs'}",
        tuning=_tuning(ran),
        tuned_path=None if study.tuning is None else study.tuning.path,
        seeds=study.seeds,
        base=base,
        arms=arms,
        comparisons=tuple(compared.values()),
        paired=paired(ran),
        commands={trial.name: _command(ran, trial) for trial in ran.stage.trials},
        runs={trial.name: trial.run.plain() for trial in ran.stage.trials},
        environment=_environment(ran),
        notes=tuple(_notes(ran, arms)),
        study=study.plain(),
        gates=ran.stage.gates,
        climb=climb(ran),
        lengths=at_lengths(ran),
    )


def titled(ran: Ran) -> str:
    """The title, which says where sizes were not matched."""
    return ran.study.title if ran.study.match is not None else f"{ran.study.title} (sizes not matched)"


def paired(ran: Ran) -> bool:
    """Whether all arms of each seed saw the same first and last batch, which is what a digest of each tells."""
    by_seed: dict[int, set[str]] = {}
    for trial, outcome in _finals(ran):
        if outcome.status == "finished":
            by_seed.setdefault(trial.run.seed, set()).add(outcome.batches)
    return all(len(seen) == 1 for seen in by_seed.values())


def _finals(ran: Ran, arm: str | None = None) -> list[tuple[Trial, TrialOutcome]]:
    """Final trials with their outcomes, of one arm or of all."""
    return [(trial, ran.outcomes[trial.key]) for trial in ran.stage.final if arm in (None, trial.arm)]


def _by_seed(ran: Ran, arm: str) -> dict[int, float]:
    """The metric of each seed, infinite where it diverged, and without those that failed."""
    worst = math.inf if ran.study.better == "lower" else -math.inf
    found = {trial.run.seed: outcome.number(ran.study.metric, worst) for trial, outcome in _finals(ran, arm)}
    tuned = ran.stage.tuned.get(arm)
    if tuned is not None and tuned.best is None and None not in tuned.tried.values():
        return dict.fromkeys(ran.study.seeds, worst)  # it diverged at every value
    return {seed: number for seed, number in found.items() if number is not None}


def _arm(ran: Ran, arm: ResolvedArm) -> ArmFindings:
    finals, numbers = _finals(ran, arm.name), _by_seed(ran, arm.name)
    finite = [number for number in numbers.values() if math.isfinite(number)]
    outcomes = [outcome for _, outcome in finals]
    gradients = [each.largest_gradient for each in outcomes if each.largest_gradient is not None]
    tuned = ran.stage.tuned.get(arm.name)
    assert arm.run.steps is not None
    return ArmFindings(
        name=arm.name,
        differences=tuple((path, _shown(old), _shown(new)) for path, old, new in arm.differences),
        moved="" if arm.moved is None else str(arm.moved),
        other_targets=arm.other_targets,
        updates=arm.run.steps,
        tokens=arm.tokens,
        costs=_costs(arm, outcomes),
        value=None if tuned is None else tuned.best,
        tuned=tuned,
        numbers={seed: number if math.isfinite(number) else None for seed, number in numbers.items()},
        quality=interval(finite, 1 - ran.study.alpha) if finite else None,
        failed=_reasons(finals, "failed"),
        diverged=_reasons(finals, "diverged") if finals else dict.fromkeys(numbers, "at every value that was tried"),
        largest_gradient=max(gradients, default=None),
        spikes=sum(each.spikes for each in outcomes),
        curves={trial.run.seed: outcome.curve for trial, outcome in finals},
        training={trial.run.seed: outcome.training for trial, outcome in finals},
    )


def _costs(arm: ResolvedArm, outcomes: Sequence[TrialOutcome]) -> Costs:
    sheet = cost(arm.run.architecture, length=arm.run.length)
    rates = [each.tokens_per_second for each in outcomes if each.tokens_per_second is not None]
    memory = [each.memory for each in outcomes if each.memory is not None]
    return Costs(
        sheet.params.total, sheet.params.active, arm.flops, sheet.state_bytes_per_token, predicted_bytes(arm.run),
        median(rates) if rates else None, median(memory) if memory else None,
    )  # fmt: skip


def _reasons(finals: Sequence[tuple[Trial, TrialOutcome]], status: str) -> dict[int, str]:
    return {trial.run.seed: outcome.reason for trial, outcome in finals if outcome.status == status}


def _matched(ran: Ran) -> str:
    match = ran.study.match
    if match is None:
        return "nothing: sizes are as they were written"
    what = "measured seconds of an update" if match.timed else " and ".join(match.by)
    return f"{what} within {match.tolerance:.1%}, by {', '.join(match.move)} in multiples of {match.multiple}"


def _tuning(ran: Ran) -> str:
    tuning = ran.study.tuning
    if tuning is None:
        return "none: every arm was trained with the values that it was written with"
    counts = {len(found.tried) for found in ran.stage.tuned.values()}
    each = " or ".join(map(str, sorted(counts)))
    seeds = f"seed{'s' * (len(tuning.seeds) > 1)} {', '.join(map(str, tuning.seeds))}"
    where = "" if tuning.size is None else f", at {tuning.size:g} of its size, from which muP takes it over"
    return f"{tuning.path}, {each} values per arm with {seeds}, none of those compared{where}"


def _notes(ran: Ran, arms: Sequence[ArmFindings]) -> list[str]:
    """What a reader should know before believing the rest."""
    notes = []
    for arm in arms:
        if arm.other_targets:
            paths = ", ".join(arm.other_targets)
            notes.append(f"{arm.name} differs in {paths}: its {ran.study.metric} may be of something else than the base's")
        if arm.tuned is not None and arm.tuned.best is None:
            notes.append(f"{arm.name} diverged or failed at every value that was tried, and has no final trials")
        elif arm.tuned is not None and arm.tuned.edge:
            notes.append(f"{arm.name} was best at {arm.value:g}, an end of the grid: a better value may lie beyond")
        for seed, reason in arm.failed.items():
            notes.append(f"{arm.name} with seed {seed} failed, and is left out: {reason}; the same command tries it again")
    if not paired(ran):
        notes.append("arms saw other batches with the same seed (another batch size, length or data), so pairs share less")
    return notes


def _environment(ran: Ran) -> dict[str, Any]:
    """Of the machine, as the first finished trial recorded it, with the study's threads and precision."""
    facts: dict[str, Any] = {"threads": ran.study.threads, "precision": ran.study.base.plan.precision.kind}
    for trial in ran.stage.trials:
        path = ran.place(trial) / ENVIRONMENT
        if path.is_file():
            found = read_json(path)
            return facts | {name: found[name] for name in ("python", "device", "cores", "versions") if name in found}
    return facts


def _command(ran: Ran, trial: Trial) -> str:
    """What repeats a trial alone."""
    file = (ran.place(trial) / RUN).relative_to(ran.directory)
    return f"OMP_NUM_THREADS={trial.threads} anyformer train {file.as_posix()} --out again"


def _shown(value: Any) -> str:
    if value is None:
        return "absent"
    return brief(value) if isinstance(value, Value) else str(as_data(value))


def _plain(value: Any) -> Any:
    """Data that JSON has: numbers that are not finite are null, keys are text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def mean_curve(curves: Mapping[int, Points]) -> list[tuple[int, float, float, float]]:
    """(tokens, mean, lowest, highest) over seeds, at the tokens that all curves have."""
    found = [dict(curve) for curve in curves.values() if curve]
    shared = sorted(set.intersection(*map(set, found))) if found else []
    return [(at, fmean(each[at] for each in found), min(c[at] for c in found), max(c[at] for c in found)) for at in shared]
