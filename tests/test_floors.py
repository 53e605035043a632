"""The floors of the house: imports point down only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from sources import SOURCE, defined, defined_in

FLOORS = [
    {"describe", "dims"},
    {"files", "mesh", "precision", "processor", "sound"},
    {"hub", "images", "stores"},
    {"plan", "operations", "text", "cache"},
    {"native", "tuning"},
    {"parts"},
    {"model"},
    {"resizing", "quantising"},
    {"catalogue", "requirements"},
    {"costs", "data"},
    {"generation", "tasks"},
    {"rewards"},
    {"objectives", "checkpoint", "huggingface", "pictures", "planning"},
    {"atlas", "exporting", "inspecting", "resolving"},
    {"loading"},
    {"engines"},
    {"training"},
    {"evaluation", "inference", "launching", "measuring", "testing"},
    {"conforming", "probing", "serving", "starting_points", "studies", "transforming"},
    {"api", "building", "exploring", "porting"},
    {"cli"},
]
PARTS = [
    {"sketch", "lookup", "derived", "parametrisation", "constant", "counting"},
    {"slot"},
    {"pointwise"},
    {"initialisation", "masks", "norms"},
    {"positions"},
    {"call", "layout"},
    {"sublayer"},
    {"embedding", "attention", "feedforward", "dictionary"},
    {"experts", "recurrence"},
    {"layers"},
    {"images"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.name[:2] != "__")
LONGEST = 300
LONGEST_FUNCTION = 60
MOST_OPTIONS = 12


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its full name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


@cache
def imports(path: Path) -> frozenset[str]:
    """Modules of this package that a file imports, wherever in the file: lazily and for types alone too."""
    found = {whole if (whole := f"{module}.{name}") in modules() else module for module, name in defined(path).imports}
    return frozenset(found & modules().keys())


def imported_rooms(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imports(path) if "." in name}


def test_imports_point_down():
    wrong = {
        f"{path.relative_to(SOURCE)} (floor {FLOOR[room]}) imports {other} (floor {FLOOR[other]})"
        for path in FILES
        for room in [room_of(path)]
        for other in imported_rooms(path) - {room}
        if FLOOR[other] >= FLOOR[room]
    }
    assert not wrong


def test_imports_between_the_rooms_of_parts_point_down():
    floor = {room: number for number, rooms in enumerate(PARTS) for room in rooms}
    for name, path in modules().items():
        if name.startswith("anyformer.parts."):
            room = name.split(".")[2]
            others = {other.split(".")[2] for other in imports(path) if other.startswith("anyformer.parts.")} - {room}
            for other in others:
                assert floor[other] < floor[room], f"{path} imports {other}"


def test_no_modules_import_each_other():
    """No cycle: whoever reads one file needs only files below it. A part and the module that it builds are one."""
    leaving = [
        {"anyformer.parts.sublayer", "anyformer.parts.traced_sublayer"},
        {"anyformer.parts.layers.stack", "anyformer.parts.layers.layers_keep"},
        {"anyformer.parts.experts.experts", "anyformer.parts.experts.experts_keep"},
    ]
    graph: dict[str, set[str]] = {}
    for name, path in modules().items():
        part = name.removesuffix("_module")
        graph[part] = graph.get(part, set()) | {other.removesuffix("_module") for other in imports(path)} - {part}
    assert [group for group in cycles(graph) if group not in leaving] == []


def cycles(graph: Mapping[str, Iterable[str]]) -> Iterator[set[str]]:
    """Groups of nodes each of which reaches all others, by Warshall's closure (doi 10.1145/321105.321107)."""
    reached = {name: set(others) for name, others in graph.items()}
    for middle in graph:
        for name in graph:
            if middle in reached[name]:
                reached[name] |= reached[middle]
    found: list[set[str]] = []
    for name in graph:
        if name in reached[name] and not any(name in group for group in found):
            found.append({other for other in graph if other in reached[name] and name in reached[other]})
            yield found[-1]


def test_every_room_has_a_floor():
    assert {room_of(path) for path in FILES} == set(FLOOR)


def test_no_room_hides_what_the_package_offers():
    """Importing `anyformer.difference` would put a module where `af.difference` was."""
    import anyformer

    assert not FLOOR.keys() & anyformer.__all__


@pytest.mark.parametrize("room", ["describe", "dims", "plan", "operations"])
def test_descriptions_need_no_torch(room):
    for path in FILES:
        if room_of(path) == room:
            assert not re.search(r"^\s*(import|from) torch", path.read_text(), re.M), path


def test_files_hold_one_thing():
    lines = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in FILES}
    assert {path: count for path, count in lines.items() if count > LONGEST} == {}


def test_functions_are_read_at_once():
    """From `def` to the end, with parameters and docstring."""
    lines = {
        f"{path.relative_to(SOURCE)}: {each.name}": each.lines
        for path in FILES
        for each in defined(path).functions
        if each.lines > LONGEST_FUNCTION
    }
    assert lines == {}


def test_what_a_file_defines_is_found_wherever_it_stands():
    found = defined_in(
        "import a.b\nclass C:\n    async def f(self, x, /, *, y):\n        from a import g\n        class D: ...\n"
    )
    assert set(found.imports) == {("a.b", ""), ("a", "g")}
    assert [(each.name, each.lines, each.parameters) for each in found.functions] == [("f", 3, 3)]
    assert found.classes == (("C", 2), ("D", 5))


def test_commands_take_their_options_in_groups():
    """A command of thirty parameters was one function that nobody reads: see `grouped` of `cli/options.py`."""
    counts = {
        path.stem: each.parameters
        for path in (SOURCE / "cli").glob("*.py")
        for each in defined(path).functions
        if each.name == "run"
    }
    assert len(counts) > 15, "every command has a `run`"
    assert {name: count for name, count in counts.items() if count > MOST_OPTIONS} == {}
