"""A study from its TOML file: names and paths in it become the runs and architectures that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyformer.describe import DescriptionError, change_all, did_you_mean, read_data
from anyformer.resolving import architecture, path_beside, pop_changes
from anyformer.studies.study import Study
from anyformer.training.run import load_run


def load_study(path: Path | str, changes: Mapping[str, Any] | None = None) -> Study:
    """The study that a TOML or JSON file describes, with `changes` by path.

    Where a run is expected the file may give the path of one, and where an architecture is, a catalogue name or a path; paths
    are looked for beside the file first. A table `[set]` may change the study by path, as in a run's file. `title` is by
    default the name of the file.
    """
    path = Path(path)
    data = read_data(path)
    if not isinstance(data, dict):
        raise DescriptionError(f"should be a table, got {type(data).__name__}", where=str(path))
    changes = {**pop_changes(data, str(path)), **(changes or {})}
    plain = {"title": path.stem.replace("-", " ").replace("_", " "), **data}
    arms = data.get("arms")
    if isinstance(arms, Mapping):
        plain["arms"] = {name: _arm(name, arm, path) for name, arm in arms.items()}
    stairs = data.get("staircase")
    start = None
    if isinstance(stairs, Mapping):
        start = stairs.get("from")
        plain["staircase"] = _with_architecture({k: v for k, v in stairs.items() if k != "from"}, "to", path)
    if "base" in data:
        plain["base"] = _run(data["base"], "base", path)
    if start is not None and isinstance(plain.get("base"), dict):
        plain["base"] = {**plain["base"], "architecture": _architecture(start, path)}
    study = Study.parse(plain, where=str(path))
    return change_all(study, changes) if changes else study


def _arm(name: str, arm: Any, file: Path) -> Any:
    if not isinstance(arm, Mapping):
        return arm
    made = _with_architecture(dict(arm), "architecture", file)
    return {**made, "run": _run(made["run"], f"arms.{name}.run", file)} if "run" in made else made


def _run(named: Any, where: str, file: Path) -> Any:
    """The plain data of a run: of the file of this path, or the table itself, in which names are looked up."""
    if isinstance(named, str):
        found = file.parent / named
        if not found.is_file() and not Path(named).is_file():
            near = [each.name for each in found.parent.glob("*.toml")] if found.parent.is_dir() else []
            raise DescriptionError(
                f"{where}: there is no file {named!r} beside this one{did_you_mean(found.name, near)}", where=str(file)
            )
        return load_run(found if found.is_file() else Path(named)).plain()
    return _with_architecture(dict(named), "architecture", file) if isinstance(named, Mapping) else named


def _with_architecture(table: dict[str, Any], key: str, file: Path) -> dict[str, Any]:
    return {**table, key: _architecture(table[key], file)} if key in table else table


def _architecture(named: Any, file: Path) -> Any:
    return architecture(path_beside(named, file.parent)).plain() if isinstance(named, str) else named
