"""Which test runs which line: recorded by coverage.py, a test file at a time, and kept until one of these files changes."""

from __future__ import annotations

import ast
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Test:
    """A test that passes: its processor seconds, and the lines it runs of each file of the package."""

    __test__ = False
    name: str
    seconds: float
    lines: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Recorded:
    """The passing tests of one file, and digests of this file and of the files that they cover."""

    tests: tuple[Test, ...]
    digests: Mapping[str, str]

    def holds(self, root: Path, paths: set[str]) -> bool:
        """Whether none of these files has changed since, as far as the tests depend on it."""
        known = {path: found for path, found in self.digests.items() if path in paths}
        return all((root / path).is_file() and digest(root / path) == found for path, found in known.items())


@dataclass(eq=False)
class Watch:
    """A plugin of pytest that gives each test a context of its own, and keeps the seconds of those that pass."""

    coverage: Any
    seconds: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        began = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - began
        self.coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)


def record(tree: Path, file: str, rooms: tuple[str, ...], arguments: list[str]) -> Recorded:
    """Run the tests of a file in this process, whose working directory is `tree`."""
    import coverage

    measured = coverage.Coverage(data_file=None, source=[str(tree / room) for room in rooms], config_file=False)
    watch = Watch(measured)
    measured.start()
    pytest.main([*arguments, file], plugins=[watch])
    measured.stop()
    data = measured.get_data()
    lines: dict[str, dict[str, list[int]]] = {}
    for path in sorted(data.measured_files()):
        name = Path(path).relative_to(tree).as_posix()
        for line, contexts in data.contexts_by_lineno(path).items():
            for context in contexts:
                lines.setdefault(context, {}).setdefault(name, []).append(line)
    passed = [name for name in watch.seconds if name not in watch.failed]
    tests = tuple(
        Test(name, round(watch.seconds[name], 3), {path: tuple(sorted(found)) for path, found in lines.get(name, {}).items()})
        for name in passed
    )
    covered = {file, *(path for test in tests for path in test.lines)}
    return Recorded(tests, {path: digest(tree / path) for path in sorted(covered)})


def digest(path: Path) -> str:
    """A short SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def in_function(source: str, line: int) -> bool:
    """Whether a line stands in the body of a function. Any other runs once, at the import, whichever test comes first."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return any(node.body[0].lineno <= line <= (node.end_lineno or 0) for node in functions)


def chosen(recorded: Iterable[Recorded], path: str, line: int | None, seconds: float) -> list[Test]:
    """The tests that run a line, the shortest first, then the others of their files, as many as take `seconds` together.

    `line`: None for one that runs at the import; whatever runs in the file counts then. The others are asked because a value
    may be made once, whichever test comes first, and because a test of a field's bounds runs no line of the field's file.
    """

    def runs(test: Test, at: int | None) -> bool:
        return path in test.lines and (at is None or at in test.lines[path])

    files = list(recorded)
    at = line if any(runs(test, line) for each in files for test in each.tests) else None
    beside = [test for each in files if any(runs(test, at) for test in each.tests) for test in each.tests]
    few: list[Test] = []
    left = seconds
    for test in sorted(beside, key=lambda test: (not runs(test, at), test.seconds, test.name)):
        if few and left < test.seconds:
            continue
        few.append(test)
        left -= test.seconds
    return few


def read(path: Path) -> dict[str, Recorded]:
    """What was recorded, by test file."""
    if not path.exists():
        return {}
    data = json.loads(path.read_text(encoding="utf-8"))
    return {
        file: Recorded(
            tuple(
                Test(test["name"], test["seconds"], {p: tuple(n) for p, n in test["lines"].items()}) for test in each["tests"]
            ),
            each["digests"],
        )
        for file, each in data.items()
    }


def write(path: Path, recorded: Mapping[str, Recorded]) -> None:
    """Keep what was recorded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({file: asdict(each) for file, each in recorded.items()}), encoding="utf-8")
