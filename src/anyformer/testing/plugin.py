"""What a plug-in defines, and the contracts that each of it owes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from anyformer.catalogue import architecture as published
from anyformer.describe import DescriptionError, Part, Value, from_toml, nested, to_toml
from anyformer.describe.value import subclasses
from anyformer.huggingface import Family
from anyformer.huggingface.plugin_families import families_of_module
from anyformer.objectives import Objective
from anyformer.parts.masks.mask import Mask
from anyformer.resizing.tiny import tiny
from anyformer.rewards import Reward
from anyformer.tasks import Task
from anyformer.testing import architectures, families, masks, objectives, optimisers, rewards, runs, tasks
from anyformer.testing.around import around
from anyformer.testing.checks import Checks
from anyformer.testing.promise import Promise
from anyformer.testing.said_twice import said_twice
from anyformer.training import Run
from anyformer.tuning import Optimiser

TRIED = ("llama-2-7b", "bert-base-uncased", "t5-small", "llada-8b")
"""Architectures of which, at tiny sizes, the first that an objective takes is trained on it."""


def promises(module: ModuleType) -> Iterator[Promise]:
    """What each class and each family of a plug-in promises: parts first, then what has them in it."""
    given = next((each for each in vars(module).values() if type(each) is Checks), Checks())
    folder = Path(str(vars(module).get("__file__", "."))).parent
    mine = classes_of(module)
    parts = {each: _name(each) for each in mine if not issubclass(each, Objective | Optimiser | Reward | Task)}
    for defined in sorted(mine, key=lambda each: each not in parts):
        of = _name(defined)
        if issubclass(defined, Objective):
            owes = _of_objective(of, defined, given, folder, parts)
        else:
            owes = _of_class(of, defined, given)
        yield from _whatever_it_raises(of, owes)
    for family in families_of_module(module.__name__):
        yield from _whatever_it_raises(f"family {family.model_type}", _of_family(family, given, parts))


def _name(defined: type[Value]) -> str:
    return f"{_base(defined).__name__.lower()} {_kind(defined)}"


def _inside(value: Value, parts: Mapping[type[Value], str]) -> tuple[str, ...]:
    """The parts of the plug-in that stand in a value."""
    return tuple(dict.fromkeys(parts[type(inner)] for inner in nested(value) if type(inner) in parts))


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
        yield from _numbered(_of_example(of, example, given), number, len(examples))


def _of_example(of: str, example: Value, given: Checks) -> Iterator[Promise]:
    if isinstance(example, Task):
        return _of_task(of, example, given)
    if isinstance(example, Reward):
        return _of_reward(of, example, given)
    return _of_optimiser(of, example, given) if isinstance(example, Optimiser) else _of_part(of, example, given)


def _numbered(owes: Iterable[Promise], number: int, count: int) -> Iterator[Promise]:
    return (replace(each, number=number if count > 1 else 0) for each in owes)


def classes_of(module: ModuleType) -> list[type[Value]]:
    """The classes that a module, or a module inside it, defines, with a kind or with a name in a slot."""
    homes = module.__name__, f"{module.__name__}."
    mine = (each for each in subclasses(Value) if each.__module__ == homes[0] or each.__module__.startswith(homes[1]))
    return [each for each in dict.fromkeys(mine) if _kind(each)]


def _kind(defined: type[Value]) -> str:
    """The kind under which a class is known, or its name in a slot; nothing of any other class."""
    base = _base(defined)
    known: Mapping[str, type] = base.members if "members" in vars(base) and issubclass(base, Part) else base.kinds or {}
    return next((name for name, each in known.items() if each is defined), "")


def _base(defined: type[Value]) -> type[Value]:
    """The class that holds the registry."""
    return next(base for base in defined.__mro__ if "kinds" in vars(base) or "members" in vars(base))


def _examples(defined: type[Value], given: Checks) -> list[Value]:
    """What the plug-in gives of a class, on its own or in an architecture; else the value of its defaults, if it has one."""
    examples = [each for each in given.examples if any(type(inner) is defined for inner in nested(each))]
    return examples if examples or _required(defined) else [defined()]


def _required(defined: type[Value]) -> str:
    names = [name for name, field in defined.model_fields.items() if field.is_required()]
    return f"has no default for {', '.join(names)}" if names else ""


def _of_part(of: str, example: Value, given: Checks) -> Iterator[Promise]:
    if isinstance(example, Mask):
        for holds in masks.CONTRACTS:
            yield Promise(of, holds.__name__, partial(holds, example))
    yield from said_twice(of, _kind(type(example)), example, given)
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
    yield from architectures.promises(of, made, {kind: twin for kind, twin in given.twins.items() if kind in kinds})


def _of_task(of: str, task: Task, given: Checks) -> Iterator[Promise]:
    owes = [Promise(of, "description_survives_text", partial(_survives_text, task))]
    for holds in tasks.CONTRACTS:
        needs = tuple(each.__name__ for each in tasks.NEEDS.get(holds.__name__, ()))
        owes.append(Promise(of, holds.__name__, partial(holds, task), needs=needs))
    same = tasks.answers_are_those_of_its_solution
    if task.kind in given.solutions:
        compared = partial(same, task, given.solutions[task.kind])
        owes.append(Promise(of, same.__name__, compared, needs=tuple(each.__name__ for each in tasks.NEEDS[same.__name__])))
    else:
        missing = "give a plain one in Checks(solutions={...}) to compare with"
        owes.append(Promise(of, same.__name__, missing=missing, needed=False))
    yield from _with_run(owes, of, runs.run_on_task(task))


def _of_reward(of: str, reward: Reward, given: Checks) -> Iterator[Promise]:
    yield Promise(of, "description_survives_text", partial(_survives_text, reward))
    yield from rewards.promises(of, reward, given.answers, given.rewards.get(reward.kind))


FALLS, RESUMES = runs.loss_falls_on_one_repeated_batch, runs.killed_and_resumed_equals_never_interrupted


def _with_run(
    owes: Iterable[Promise],
    of: str,
    run: Run,
    inside: tuple[str, ...] = (),
    trained: tuple[Callable[[Run], object], ...] = (FALLS, RESUMES),
) -> Iterator[Promise]:
    """Promises and those of a run, which takes seconds and is trained only where all others hold."""
    before = []
    for promise in owes:
        before.append(promise.what)
        yield replace(promise, inside=inside)
    for holds in trained:
        yield Promise(of, holds.__name__, partial(holds, run), needs=tuple(before), inside=inside)
        before.append(holds.__name__)


def _of_optimiser(of: str, optimiser: Optimiser, given: Checks) -> Iterator[Promise]:
    owes = [Promise(of, "description_survives_text", partial(_survives_text, optimiser))]
    owes += [Promise(of, holds.__name__, partial(holds, optimiser)) for holds in optimisers.CONTRACTS]
    equal = optimisers.updates_equal_its_twin
    if optimiser.kind in given.updates:
        owes.append(Promise(of, equal.__name__, partial(equal, optimiser, given.updates[optimiser.kind])))
    else:
        missing = "give its update in plain operations in Checks(updates={...}) to compare with"
        owes.append(Promise(of, equal.__name__, missing=missing, needed=False))
    yield from _with_run(owes, of, runs.run_with(optimiser), trained=(runs.loss_falls_at_some_rate, RESUMES))


def _of_objective(
    of: str, defined: type[Objective], given: Checks, folder: Path, parts: Mapping[type[Value], str]
) -> Iterator[Promise]:
    tables = [table for table in given.runs if _kind_of(table.get("objective")) == _kind(defined)]
    try:
        found = [runs.run_of(table, folder) for table in tables] or [_usual(defined)]
    except (DescriptionError, ValueError) as error:
        yield Promise(of, "a run", missing=f"{error}; give a tiny one in Checks(runs=[...])")
        return
    for number, run in enumerate(found, 1):
        owes = [Promise(of, "description_survives_text", partial(_survives_text, run))]
        for holds in (runs.loss_does_not_depend_on_the_cut, runs.loss_of_divided_logits_is_that_of_whole_ones):
            owes.append(Promise(of, holds.__name__, partial(holds, run)))
        owes.append(_of_loss(of, run, given))
        if objectives.is_likelihood(run.objective):
            evaluated = objectives.evaluated_loss_is_a_likelihood
            owes.append(Promise(of, evaluated.__name__, partial(evaluated, run), needs=(owes[-1].what,)))
        yield from _numbered(_with_run(owes, of, run, _inside(run, parts)), number, len(found))


def _of_loss(of: str, run: Run, given: Checks) -> Promise:
    equal, twin = objectives.loss_equals_its_twin, given.losses.get(run.objective.kind)
    if twin is not None:
        return Promise(of, equal.__name__, partial(equal, run, twin), needs=(runs.loss_does_not_depend_on_the_cut.__name__,))
    missing = "give its formula in plain operations in Checks(losses={...}) to compare with"
    return Promise(of, equal.__name__, missing=missing, needed=False)


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


def _of_family(family: Family, given: Checks, parts: Mapping[type[Value], str]) -> Iterator[Promise]:
    of = f"family {family.model_type}"
    tables = [table for table in given.configurations if table.get("model_type") == family.model_type]
    if not tables:
        yield Promise(of, "a configuration", missing="give a tiny one in Checks(configurations=[...])")
    for number, table in enumerate(tables, 1):
        yield from _numbered(_of_configuration(of, table, given, parts), number, len(tables))


def _of_configuration(of: str, table: Mapping[str, Any], given: Checks, parts: Mapping[type[Value], str]) -> Iterator[Promise]:
    try:
        architecture = families.architecture_of(table)
        inside = _inside(architecture, parts)
    except ValueError:
        architecture, inside = None, ()  # the first contract says so
    for promise in (
        *(Promise(of, each.__name__, partial(each, table)) for each in families.CONTRACTS),
        _parity(of, table, given),
    ):
        needs = tuple(each.__name__ for each in families.NEEDS.get(promise.what, ()))
        yield replace(promise, needs=needs, inside=inside if needs else ())
    if architecture is not None:
        yield from architectures.promises(of, architecture, used=False, inside=inside)


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
