"""The floors of the house: imports point down only, and nothing above the parts knows their kinds."""

from __future__ import annotations

import ast
import re
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
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.name[:2] != "__")
LONGEST = 320


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """Rooms of this package that a file imports, wherever in the file."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "anyformer":
            names = [f"anyformer.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        rooms |= {name.split(".")[1] for name in names if name.startswith("anyformer.") and ".__" not in name}
    return rooms


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path):
    room = room_of(path)
    for other in imported_rooms(path) - {room}:
        below = FLOOR[other] < FLOOR[room]
        assert below, f"{room} (floor {FLOOR[room]}) imports {other} (floor {FLOOR[other]})"


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
