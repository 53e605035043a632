"""What something new takes in a checkout of the package: its files, its export, its twin, its entry in the zoo."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from anyformer.describe import UserError
from anyformer.starting_points import edits
from anyformer.starting_points.names import Spellings
from anyformer.starting_points.plugin import check_free
from anyformer.starting_points.templates import piece
from anyformer.starting_points.things import Thing
from anyformer.starting_points.writing import NewFiles

SOURCE = "src/anyformer"
PARTS = f"{SOURCE}/parts"
NAIVE, ZOO = "tests/contract/naive", "tests/contract/zoo.py"
Piece = Callable[[str], str]
"""The text of a block of the template."""
Change = Callable[[str, Spellings, Piece], str]
"""The new text of a file, of its text."""


@dataclass(frozen=True)
class Rooms:
    """New files, each with the block that it is, and the changes to others; `{snake}` stands for the name in all of them."""

    files: Mapping[str, str]
    changes: tuple[tuple[str, Change], ...]
    after: tuple[str, ...]
    """The commands that come next."""


def _import(module: str, name: str = "{camel}") -> Change:
    return lambda text, names, _: edits.imported(text, _filled(module, names), _filled(name, names))


def _export(text: str, names: Spellings, _: Piece) -> str:
    return edits.exported(text, names.camel)


def _entry(table: str, block: str) -> Change:
    return lambda text, _, piece: edits.entered(text, table, piece(block))


def _case(function: str, block: str) -> Change:
    return lambda text, _, piece: edits.cased(text, function, piece(block))


def _definition(before: str, block: str) -> Change:
    return lambda text, _, piece: edits.defined(text, before, piece(block))


def _part(room: str, twin: str, twin_change: Change, *more: tuple[str, Change], module: bool = True, zoo: str = ZOO) -> Rooms:
    """A part of a room, with its twin in a table of the naive ones."""
    files = {f"{PARTS}/{room}/{{snake}}.py": "house"}
    if module:
        files[f"{PARTS}/{room}/{{snake}}_module.py"] = "house_module"
    changes = (
        (f"{PARTS}/__init__.py", _import(f"anyformer.parts.{room}.{{snake}}")),
        (f"{NAIVE}/{twin}.py", twin_change),
        (zoo, _import("anyformer.parts")),
        (zoo, _entry("DECODERS" if zoo == ZOO else "MIXERS", "zoo")),
    )
    return Rooms(files, (*changes, *more), CONTRACTS)


def _with_twin(rooms: Rooms, twin: str) -> Rooms:
    """Its twin in a file of its own, which the file of the table imports."""
    change = (f"{NAIVE}/{twin}.py", _import("naive.{snake}", "{snake}"))
    return Rooms({**rooms.files, f"{NAIVE}/{{snake}}.py": "twin"}, (*rooms.changes, change), rooms.after)


CONTRACTS = (
    "python -m pytest tests/contract -m '' -k {snake}",
    "python -m pytest tests/contract/test_coverage.py tests/test_dims.py tests/test_names.py",
    "make format && python -m benchmarks.operators",
)
NORM_WORK, MASKS = "tests/parts/test_norm_work.py", "tests/parts/test_mask.py"
OPTIMISERS = f"{SOURCE}/tuning/optimisers"
UPDATES, STATES = "tests/training/test_optimisers.py", "tests/training/test_optimiser_state.py"
TASKS, ORACLES = f"{SOURCE}/tasks", "tests/tasks/oracles.py"
ROOMS: Mapping[str, Rooms] = MappingProxyType(
    {
        "mixer": _with_twin(
            _part("recurrence", "recurrent", _entry("RECURRENT", "twin_entry"), zoo="tests/contract/zoo_recurrent.py"),
            "recurrent",
        ),
        "sublayer": _with_twin(_part("feedforward", "stack", _entry("SUBLAYERS", "twin_entry")), "stack"),
        "norm": _part(
            "norms", "basics", _entry("NORMS", "twin_entry"),
            (NORM_WORK, _import("anyformer.parts")),
            (NORM_WORK, _definition("CASES", "work_function")),
            (NORM_WORK, _entry("CASES", "work_case")),
        ),
        "mask": _part(
            "masks", "positions", _case("allowed", "twin_case"),
            (MASKS, _import("anyformer.parts")),
            (MASKS, _entry("single", "strategy")),
            module=False,
        ),
        "weigh": _part("attention", "heads", _entry("MAPS", "twin_entry"), module=False),
        "combine": _part("attention", "heads", _entry("COMBINE", "twin_entry"), module=False),
        "term": _part("attention", "heads", _entry("TERM", "twin_entry"), module=False),
        "place": _part(
            "positions", "heads", _entry("FACTOR", "twin_entry"),
            (f"{NAIVE}/heads.py", _entry("TURNED", "twin_turned")),
            module=False,
        ),
        "adjust": _part("attention", "heads", _entry("HEAD", "twin_entry"), module=False),
        "choice": _part("experts", "experts", _entry("PREFERENCES", "twin_entry"), module=False),
        "activation": Rooms(
            {},
            (
                (f"{PARTS}/pointwise/activation.py", _entry("ACTIVATIONS", "entry")),
                (f"{PARTS}/pointwise/activation_module.py", _definition("FUNCTIONS", "function")),
                (f"{PARTS}/pointwise/activation_module.py", _entry("FUNCTIONS", "function_entry")),
                (f"{NAIVE}/networks.py", _entry("ACTIVATIONS", "twin_entry")),
            ),
            CONTRACTS,
        ),
        "optimiser": Rooms(
            {f"{OPTIMISERS}/{{snake}}.py": "house", f"{OPTIMISERS}/{{snake}}_module.py": "house_module"},
            (
                (f"{OPTIMISERS}/__init__.py", _import("anyformer.tuning.optimisers.{snake}")),
                (f"{OPTIMISERS}/__init__.py", _export),
                (f"{SOURCE}/tuning/__init__.py", _import("anyformer.tuning.optimisers")),
                (f"{SOURCE}/tuning/__init__.py", _export),
                (UPDATES, _import("anyformer.tuning")),
                (UPDATES, _definition("TWINS", "twin")),
                (UPDATES, _entry("TWINS", "twin_entry")),
                (STATES, _import("anyformer.tuning")),
                (STATES, _entry("EACH", "state_entry")),
            ),
            ("python -m pytest tests/training/test_optimisers.py -k {snake}", "python docs/make_train.py", "make format"),
        ),
        "task": Rooms(
            {f"{TASKS}/{{snake}}.py": "house"},
            (
                (f"{TASKS}/__init__.py", _import("anyformer.tasks.{snake}")),
                (f"{TASKS}/__init__.py", _export),
                (ORACLES, _definition("ORACLES", "solution")),
                (ORACLES, _entry("ORACLES", "solution_entry")),
                ("tests/tasks/test_tasks.py", _entry("SMALL", "small")),
            ),
            (
                "python -m pytest tests/tasks -k {snake}",
                "python docs/make_tasks.py && python docs/make_train.py",
                "make format",
            ),
        ),
    }
)  # fmt: skip
"""What each thing takes; the rest has no place in the package that a template could fill in."""
OWED = {
    "objective": "the package owes a recipe of it, trained, with its result, and its data in the tests of resuming",
    "reward": "the package owes what hostile answers do to it, its formula, and a row of its guide",
    "family": "the package owes tiny configurations of a model of transformers that move every key",
}
"""Why the rest has none."""
PAGES = {"objective": "objectives/ADDING.md", "reward": "rewards/ADDING.md", "family": "huggingface/families/ADDING.md"}


def checkout(package: Path) -> Path:
    """The folder of the checkout that a package is imported from; a `UserError` if it is installed otherwise."""
    root = package.parents[1]
    if package != root / SOURCE or not (root / ZOO).is_file():
        raise UserError(
            f"--package writes into a checkout of anyformer, and {package} is none: clone the repository, install it with "
            "`pip install -e .`, or leave --package out for a plug-in beside you"
        )
    return root


def in_package(thing: Thing, names: Spellings, root: Path) -> NewFiles:
    """The new and the changed files of a checkout."""
    rooms = ROOMS.get(thing.name)
    if rooms is None:
        raise UserError(
            f"--package: {thing.what} is started as a plug-in alone, since {OWED[thing.name]}: leave --package out, and see "
            f"{SOURCE}/{PAGES[thing.name]}; in the package: {', '.join(ROOMS)}"
        )
    check_free(thing, names)
    _check_class(names, root)

    def block(name: str) -> str:
        return piece(thing.name, name, names, house=True)

    changed: dict[str, str] = {}
    for file, change in rooms.changes:
        try:
            text = changed[file] if file in changed else (root / file).read_text(encoding="utf-8")
            changed[file] = change(text, names, block)
        except (OSError, edits.NoPlaceError) as error:
            raise UserError(f"{root / file}: {error}") from None
    return NewFiles(root, {_filled(file, names): block(name) for file, name in rooms.files.items()}, changed)


def _check_class(names: Spellings, root: Path) -> None:
    """A class name means one thing in the whole package."""
    for path in sorted((root / SOURCE).rglob("*.py")):
        if re.search(rf"^class {names.camel}\b", path.read_text(encoding="utf-8"), re.MULTILINE):
            raise UserError(f"{names.camel} is a class of {path} already: take another name")


def _filled(text: str, names: Spellings) -> str:
    return text.format(snake=names.snake, camel=names.camel)
