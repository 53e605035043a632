"""`anyformer new --package` enters a part everywhere that the house asks for it; a checkout with one of each stays green."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from anyformer.describe import UserError
from anyformer.starting_points import ROOMS, THINGS, Spellings, checkout, edits, in_package
from anyformer.starting_points.writing import NewFiles

ROOT = Path(__file__).parents[2]
GIVEN = {"weigh": "ReluWeights", "mixer": "gated_mean", "norm": "AdeptNorm", "optimiser": "SignSteps"}

LONG = '__all__ = [\n    "A' + 110 * "a" + '", {}\n]\n'
"""A list of exports with no room in its line for one more."""


def names(thing: str) -> Spellings:
    return Spellings.of(GIVEN.get(thing, f"new_{thing}"))


def write_all(root: Path) -> dict[str, NewFiles]:
    """One of each, one after the other, in the same checkout."""
    written = {}
    for thing in ROOMS:
        written[thing] = in_package(THINGS[thing], names(thing), root)
        written[thing].write()
    return written


def house(root: Path) -> Path:
    """The files that are changed, in their rooms, and nothing else."""
    for rooms in ROOMS.values():
        for file in (*rooms.files, *(file for file, _ in rooms.changes)):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
        for file, _ in rooms.changes:
            shutil.copy(ROOT / file, root / file)
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def test_one_of_each_is_entered_in_the_style_of_the_house(tmp_path):
    root = house(tmp_path)
    for path in (path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")):
        # The order of imports depends on which modules there are.
        (empty := root / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        empty.touch()
    written = write_all(root)
    for thing, each in written.items():
        for file, text in each.changed.items():
            assert names(thing).snake in text or names(thing).camel in text, file
    for check in (["check"], ["format", "--diff"]):
        words = [sys.executable, "-m", "ruff", *check, "."]
        said = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stdout + said.stderr
    exports = (root / "src/anyformer/parts/__init__.py").read_text()
    assert "from anyformer.parts.norms.adept_norm import AdeptNorm\n" in exports
    # The same again is refused, since its class is there.
    with pytest.raises(UserError, match=r"AdeptNorm is a class of .*adept_norm\.py already"):
        in_package(THINGS["norm"], names("norm"), root)


def test_a_file_without_its_place_is_named(tmp_path):
    zoo = house(tmp_path) / "tests/contract/zoo_recurrent.py"
    with pytest.raises(UserError, match=r"recurrent\.py: .*math is the name of something else"):
        in_package(THINGS["mixer"], Spellings("math", "Maths"), tmp_path)
    zoo.write_text(zoo.read_text().replace("MIXERS = {", "OTHERS = {"))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.py")}
    with pytest.raises(UserError, match=r"zoo_recurrent\.py: it has no MIXERS"):
        in_package(THINGS["mixer"], Spellings.of("another"), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.py")} == before


def test_a_checkout_is_told_from_another_place(tmp_path):
    assert checkout(ROOT / "src/anyformer") == ROOT
    with pytest.raises(UserError, match=r"site-packages/anyformer is none: clone the repository"):
        checkout(tmp_path / "lib/site-packages/anyformer")


@pytest.mark.parametrize(
    ("text", "name", "made"),
    [
        ("from a.b import C\n", "D", "from a.b import C, D\n"),
        ("from a.b import (\n    R5,\n    Cat,\n)\n", "ALi", "from a.b import (\n    R5,\n    ALi,\n    Cat,\n)\n"),
        ("from a.a import C\nfrom a.c import E\n", "D", "from a.a import C\nfrom a.b import D\nfrom a.c import E\n"),
        ("from a.a import C\n\nx = 1\n", "D", "from a.a import C\nfrom a.b import D\n\nx = 1\n"),
    ],
)  # fmt: skip
def test_an_import_in_its_place(text, name, made):
    assert edits.imported(text, "a.b", name) == made


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ('__all__ = ["A", "C"]\n', '__all__ = ["A", "B", "C"]\n'),
        ('__all__ = ["A"]\n', '__all__ = ["A", "B"]\n'),
        ('__all__ = [\n    "A",\n    "c",\n]\n', '__all__ = [\n    "A",\n    "B",\n    "c",\n]\n'),
        (LONG.format('"Cat",'), LONG.format('\n    "B", "Cat",').replace(", \n", ",\n")),
    ],
)
def test_an_export_in_its_place(text, made):
    assert edits.exported(text, "B") == made


@pytest.fixture(scope="module")
def one_of_each(tmp_path_factory) -> Path:
    """A whole checkout, with one of each written into it."""
    root = tmp_path_factory.mktemp("whole") / "checkout"
    left_out = shutil.ignore_patterns("__pycache__", "answers.zip", "results")
    for folder in ("src", "tests", "docs", "benchmarks", "recipes"):
        shutil.copytree(ROOT / folder, root / folder, ignore=left_out)
    shutil.copy(ROOT / "pyproject.toml", root)
    write_all(root)
    return root


def green(root: Path, *words: str) -> None:
    """Some tests of a checkout pass; where none is found, pytest fails too."""
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root / "src")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout + said.stderr


@pytest.mark.slow
@pytest.mark.parametrize("thing", ROOMS)
def test_what_is_written_keeps_its_contracts(thing, one_of_each):
    asked = ("tests/contract", "tests/training/test_optimisers.py", "tests/tasks/test_tasks.py")
    green(one_of_each, *asked, "-m", "", "-k", names(thing).snake)


@pytest.mark.slow
def test_a_checkout_with_one_of_each_stays_green(one_of_each):
    green(
        one_of_each, "tests/contract/test_coverage.py", "tests/test_dims.py", "tests/test_names.py", "tests/test_floors.py",
        "tests/parts/test_norm_work.py", "tests/parts/test_mask.py", "tests/tasks/test_tasks.py",
    )  # fmt: skip
