"""The floors of the house: imports point down only, and nothing above the parts knows their kinds."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "anyformer"
FLOORS = [
    {"describe", "dims"},
    {"files"},
    {"plan", "tally"},
    {"tape", "tuning"},
    {"parts"},
    {"model"},
    {"catalogue", "costs", "data"},
    {"generation"},
    {"objectives", "checkpoint", "huggingface", "pictures", "planning"},
    {"resolving"},
    {"training", "loading"},
    {"compare"},
    {"api"},
    {"cli"},
]
PARTS = [
    {"sketch", "lookup", "initialisation"},
    {"masks", "positions", "norms", "pointwise"},
    {"call"},
    {"sublayer"},
    {"embedding", "attention", "feedforward"},
    {"experts", "recurrence"},
    {"layers"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.name[:2] != "__")
LONGEST = 320


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
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {name if (name := f"{node.module}.{alias.name}") in modules() else node.module for alias in node.names}
    return frozenset(found & modules().keys())


def imported_rooms(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imports(path) if "." in name}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path):
    room = room_of(path)
    for other in imported_rooms(path) - {room}:
        below = FLOOR[other] < FLOOR[room]
        assert below, f"{room} (floor {FLOOR[room]}) imports {other} (floor {FLOOR[other]})"


def test_imports_between_the_rooms_of_parts_point_down():
    floor = {room: number for number, rooms in enumerate(PARTS) for room in rooms}
    tracers = {"traced", "traced_sublayer"}  # to go
    for name, path in modules().items():
        if name.startswith("anyformer.parts."):
            room = name.split(".")[2]
            others = {other.split(".")[2] for other in imports(path) if other.startswith("anyformer.parts.")} - {room}
            for other in others - tracers if room not in tracers else ():
                assert floor[other] < floor[room], f"{path} imports {other}"


def test_every_room_has_a_floor():
    assert {room_of(path) for path in FILES} == set(FLOOR)


@pytest.mark.parametrize("room", ["describe", "dims", "plan", "tally", "tape", "tuning"])
def test_descriptions_need_no_torch(room):
    for path in FILES:
        if room_of(path) == room:
            assert not re.search(r"^\s*(import|from) torch", path.read_text(), re.M), path


def test_nothing_above_the_parts_asks_for_a_kind():
    """No isinstance of a part, no comparing its kind, no probing for attributes."""
    import anyformer.parts as parts

    above = [path for path in FILES if FLOOR[room_of(path)] > FLOOR["parts"]]
    names = "|".join(name for name in parts.__all__ if name[0].isupper())
    for path in above:
        text = path.read_text()
        assert not re.search(rf"isinstance\([^)]*\b({names})\b", text), path
        assert not re.search(r"\.kind\s*(==|!=|in)\b", text), path
        assert "hasattr(" not in text, path


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_hold_one_thing(path):
    assert len(path.read_text().splitlines()) <= LONGEST
