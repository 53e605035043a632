"""What a plug-in defines, the contracts that each of it owes, and whether they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from anyformer.catalogue import architecture as published
from anyformer.describe import DescriptionError, Value, from_toml, nested, to_toml
from anyformer.describe.value import subclasses
from anyformer.huggingface import Family
from anyformer.huggingface.plugin_families import families_of_module
from anyformer.model import Architecture
from anyformer.objectives import Objective
from anyformer.resizing.tiny import tiny
from anyformer.tasks import Task
from anyformer.testing import contracts, families, optimisers, runs, tasks, whole
from anyformer.testing.around import around
from anyformer.testing.checks import Checks
from anyformer.training import Run
from anyformer.tuning import Optimiser

TRIED = ("llama-2-7b", "bert-base-uncased", "t5-small", "llada-8b")
"""Architectures of which, at tiny sizes, the first that an objective takes is trained on it."""


@dataclass(frozen=True)
class Promise:
    """A contract of one thing that a plug-in defines: `holds` raises if it is broken.

    Without `holds` it cannot be tested: `missing` says what the plug-in has to give for it. `needed`: whether that counts as
    a failure.
    """

    of: str
    what: str
    holds: Callable[[], object] | None = None
    missing: str = ""
    needed: bool = True


@dataclass(frozen=True)
class Finding:
    """Whether a promise is kept: the error if it is not, None if it cannot be tested."""

    promise: Promise
    kept: bool | None
    why: str = ""

    @property
    def fails(self) -> bool:
        """Whether the plug-in does not pass because of it."""
        return self.kept is False or (self.kept is None and self.promise.needed)


def find(promise: Promise) -> Finding:
    """Test a promise."""
    if promise.holds is None:
        return Finding(promise, None, promise.missing)
    try:
        promise.holds()
    except Exception as error:  # any exception of a plug-in breaks its promise
        said = str(error).strip()
        return Finding(
            promise, False, said if isinstance(error, AssertionError) and said else f"{type(error).__name__}: {said}"
        )
    return Finding(promise, True)


def promises(module: ModuleType) -> Iterator[Promise]:
    """What each class and each family of a plug-in promises, in the order of their definition."""
    given = next((each for each in vars(module).values() if type(each) is Checks), Checks())
    folder = Path(str(vars(module).get("__file__", "."))).parent
    for defined in classes_of(module):
        of = f"{_base(defined).__name__.lower()} {_kind(defined)}"
        owes = _of_objective(of, defined, given, folder) if issubclass(defined, Objective) else _of_class(of, defined, given)
        yield from _whatever_it_raises(of, owes)
    for family in families_of_module(module.__name__):
        yield from _whatever_it_raises(f"family {family.model_type}", _of_family(family, given))


def _whatever_it_raises(of: str, owes: Iterator[Promise]) -> Iterator[Promise]:
    """Promises; an error of the plug-in's own code, already when these are gathered, breaks one more."""
    try:
        yield from owes
    except Exception as error:  # any exception of a plug-in
        yield Promise(of, "its description can be asked", partial(_again, error))


def _again(error: Exception) -> None:
    raise error


def _of_class(of: str, defined: type[Value], given: Checks) -> Iterator[Promise]:
    examples = _examples(defined, given)
    if not examples:
        yield Promise(of, "an example", missing=f"{_required(defined)}: give one in Checks(examples=[...])")
    for number, example in enumerate(examples, 1):
        named = of if len(examples) == 1 else f"{of} ({number})"
        if isinstance(example, Task):
            yield from _of_task(named, example, given)
        elif isinstance(example, Optimiser):
            yield from _of_optimiser(named, example, given)
        else:
            yield from _of_part(named, example, given)


def classes_of(module: ModuleType) -> list[type[Value]]:
    """The classes with a kind that a module, or a module inside it, defines."""
    homes = module.__name__, f"{module.__name__}."
    found = dict.fromkeys(each for each in subclasses(Value) if each.kinds is not None)
    mine = [each for each in found if each.__module__ == homes[0] or each.__module__.startswith(homes[1])]
    return [each for each in mine if _kind(each) and each.kinds is not None and each.kinds.get(_kind(each)) is each]


def _kind(defined: type[Value]) -> str:
    kind = defined.model_fields.get("kind")
    return kind.default if kind is not None and isinstance(kind.default, str) else ""


def _base(defined: type[Value]) -> type[Value]:
    """The class that holds the registry."""
    return next(base for base in defined.__mro__ if "kinds" in vars(base))


def _examples(defined: type[Value], given: Checks) -> list[Value]:
    """What the plug-in gives of a class, on its own or in an architecture; else the value of its defaults, if it has one."""
    examples = [each for each in given.examples if any(type(inner) is defined for inner in nested(each))]
    return examples if examples or _required(defined) else [defined()]


def _required(defined: type[Value]) -> str:
    names = [name for name, field in defined.model_fields.items() if field.is_required()]
    return f"has no default for {', '.join(names)}" if names else ""


def _of_part(of: str, example: Value, given: Checks) -> Iterator[Promise]:
    try:
        made = around(example)
    except DescriptionError as error:
        yield Promise(of, "an architecture", missing=f"{error}; give a tiny one in Checks(examples=[...])")
        return
    if made is None:
        yield Promise(of, "text", partial(_survives_text, example))
        yield Promise(of, "an architecture", missing="give a tiny one that has it in Checks(examples=[...])")
        return
    kinds = {
        sublayer.kind for stack in made.stacks.values() for block in stack.variants.values() for sublayer in block.sublayers
    }
    twins = {kind: twin for kind, twin in given.twins.items() if kind in kinds}
    yield from (Promise(of, name, holds) for name, holds in contracts.promises(made, twins).items())
    yield from (Promise(of, each.__name__, partial(each, made)) for each in whole.CONTRACTS)
    run = _learns_a_task(made)
    if run is not None:
        yield from _of_run(of, run)


def _of_run(of: str, run: Run) -> Iterator[Promise]:
    for holds in (runs.loss_falls_on_one_repeated_batch, runs.killed_and_resumed_equals_never_interrupted):
        yield Promise(of, holds.__name__, partial(holds, run))


def _learns_a_task(architecture: Architecture) -> Run | None:
    """A run of a decoder of tokens; None for an architecture that learns otherwise."""
    try:
        return runs.run_on_copying(architecture)
    except DescriptionError:
        return None


def _of_task(of: str, task: Task, given: Checks) -> Iterator[Promise]:
    yield Promise(of, "description_survives_text", partial(_survives_text, task))
    for holds in tasks.CONTRACTS:
        yield Promise(of, holds.__name__, partial(holds, task))
    name = tasks.answers_are_those_of_its_solution.__name__
    if task.kind in given.solutions:
        yield Promise(of, name, partial(tasks.answers_are_those_of_its_solution, task, given.solutions[task.kind]))
    else:
        yield Promise(of, name, missing="give a plain one in Checks(solutions={...}) to compare with", needed=False)
    yield from _of_run(of, runs.run_on_task(task))


def _of_optimiser(of: str, optimiser: Optimiser, given: Checks) -> Iterator[Promise]:
    yield Promise(of, "description_survives_text", partial(_survives_text, optimiser))
    for holds in optimisers.CONTRACTS:
        yield Promise(of, holds.__name__, partial(holds, optimiser))
    equal = optimisers.updates_equal_its_twin
    if optimiser.kind in given.updates:
        yield Promise(of, equal.__name__, partial(equal, optimiser, given.updates[optimiser.kind]))
    else:
        missing = "give its update in plain operations in Checks(updates={...}) to compare with"
        yield Promise(of, equal.__name__, missing=missing, needed=False)
    for learns in (runs.loss_falls_at_some_rate, runs.killed_and_resumed_equals_never_interrupted):
        yield Promise(of, learns.__name__, partial(learns, runs.run_with(optimiser)))


def _of_objective(of: str, defined: type[Objective], given: Checks, folder: Path) -> Iterator[Promise]:
    tables = [table for table in given.runs if _kind_of(table.get("objective")) == _kind(defined)]
    try:
        found = [runs.run_of(table, folder) for table in tables] or [_usual(defined)]
    except (DescriptionError, ValueError) as error:
        yield Promise(of, "a run", missing=f"{error}; give a tiny one in Checks(runs=[...])")
        return
    for run in found:
        yield Promise(of, "description_survives_text", partial(_survives_text, run))
        yield Promise(of, "loss_does_not_depend_on_the_cut", partial(runs.loss_does_not_depend_on_the_cut, run))
        yield from _of_run(of, run)


def _usual(defined: type[Objective]) -> Run:
    """A run of an objective with its defaults on lines of text, with the first architecture that it takes."""
    if needed := _required(defined):
        raise DescriptionError(needed)
    objective = defined.parse({})
    reasons = []
    for name in TRIED:
        model = tiny(published(name))
        try:
            objective.check(model)
            return runs.run_on_text(model, objective)
        except ValueError as error:
            reasons.append(f"{name}: {error}")
    raise DescriptionError("; ".join(reasons))


def _of_family(family: Family, given: Checks) -> Iterator[Promise]:
    of = f"family {family.model_type}"
    tables = [table for table in given.configurations if table.get("model_type") == family.model_type]
    if not tables:
        yield Promise(of, "a configuration", missing="give a tiny one in Checks(configurations=[...])")
    for number, table in enumerate(tables, 1):
        named = of if len(tables) == 1 else f"{of} ({number})"
        for holds in families.CONTRACTS:
            yield Promise(named, holds.__name__, partial(holds, table))
        yield _parity(named, table, given)
        try:
            architecture = families.architecture_of(table)
        except ValueError:
            continue  # the first contract says so
        for name, kept in contracts.promises(architecture).items():
            yield Promise(named, name, kept)


def _parity(of: str, table: Mapping[str, Any], given: Checks) -> Promise:
    reference = given.references.get(str(table["model_type"]))
    if reference is not None:
        holds = families.logits_are_those_of_its_reference
        return Promise(of, holds.__name__, partial(holds, table, reference))
    name = families.logits_are_those_of_transformers.__name__
    if families.in_transformers(str(table["model_type"])):
        return Promise(of, name, partial(families.logits_are_those_of_transformers, table))
    missing = "transformers has no such model type here: give Checks(references={...}) to compare with"
    return Promise(of, name, missing=missing, needed=False)


def _survives_text(value: Value) -> None:
    """The description written as TOML and read again is equal."""
    assert from_toml(type(value), to_toml(value)) == value


def _kind_of(objective: Any) -> Any:
    return objective.get("kind") if isinstance(objective, Mapping) else objective
