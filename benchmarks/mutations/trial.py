"""One process for one mutant, or for one test file to be recorded: forked from a server that has imported torch already."""

from __future__ import annotations

import compileall
import contextlib
import multiprocessing
import os
import py_compile
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from benchmarks.mutations.covering import Recorded, Test, record
from benchmarks.mutations.mutant import Mutant

PRELOADED = ["torch", "numpy", "pydantic", "pytest", "safetensors.torch", "tokenizers", "rich.console", "typer", "hypothesis"]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "build", "runs", "dist", "__pycache__", ".*_cache", ".hypothesis")
STARTING, FACTOR, WALL = 60, 5, 8
"""Processor seconds of imports; how often longer than recorded tests may take; and how often longer a wall clock may say so."""
ROOM = 12 * 2**30
"""Bytes of addresses of a process."""
OPTIONS = ["-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly"]

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(PRELOADED)


@dataclass(frozen=True)
class Outcome:
    """`kind`: killed by a test or by an error before one (`by`); killed by `time`, or a crash; survived; uncovered, where no
    test runs the line; broken, where pytest itself failed."""

    kind: str
    by: str = ""


OUTCOMES = {
    pytest.ExitCode.OK: "survived",
    pytest.ExitCode.NO_TESTS_COLLECTED: "survived",
    pytest.ExitCode.TESTS_FAILED: "killed",
    pytest.ExitCode.INTERRUPTED: "killed",
    pytest.ExitCode.USAGE_ERROR: "killed",  # a conftest.py cannot be imported
}


@contextlib.contextmanager
def copied(root: Path, place: Path) -> Iterator[Path]:
    """A copy of the tree, in which files may be changed."""
    tree = place / "tree"
    shutil.copytree(root, tree, ignore=LEFT_OUT)
    # Compiled once, and found stale by what a file says: by size and time a mutant may be the original.
    compileall.compile_dir(tree / "src", quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    try:
        yield tree
    finally:
        shutil.rmtree(place, ignore_errors=True)


def tried(tree: Path, mutant: Mutant, tests: list[Test]) -> Outcome:
    """What the tests say of a mutant."""
    if not tests:
        return Outcome("uncovered")
    path = tree / mutant.path
    before = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied(before), encoding="utf-8")
    try:
        return run(tree, tests)
    finally:
        path.write_text(before, encoding="utf-8")


def run(tree: Path, tests: list[Test]) -> Outcome:
    """What the tests say of a tree."""
    seconds = STARTING + FACTOR * sum(test.seconds for test in tests)
    found: Outcome | None = _apart(_attempt, (tree, [test.name for test in tests]), seconds)
    return found or Outcome("time")


def recorded(tree: Path, file: str, rooms: tuple[str, ...], seconds: float = 3600) -> Recorded | None:
    """The lines that the tests of a file run; None if they take too long."""
    result: Recorded | None = _apart(_record, (tree, file, rooms), seconds)
    return result


def _apart(act: Callable[..., None], arguments: tuple[Any, ...], seconds: float) -> Any:
    """What a function sends from a process of its own; None if it sends nothing within its processor seconds."""
    receiver, sender = _server.Pipe(duplex=False)
    process = _server.Process(target=act, args=(sender, seconds, *arguments))
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(WALL * seconds) else None
    except EOFError:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.kill()
        process.join()


def _enter(tree: Path, seconds: float) -> list[str]:
    """Make this process one of the tree, with limits; gives the options of pytest."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    os.chdir(tree)
    temporary = tree.parent / "temporary"
    os.environ.update(PYTHONPATH=f"{tree / 'src'}:{tree}", ANYFORMER_CACHE=str(tree.parent / "cache"))
    # What is compiled meanwhile would be found stale by size and time.
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.path[:0] = [str(tree / "src"), str(tree)]
    sys.path[:] = [path for path in sys.path if path]
    assert "anyformer" not in sys.modules, "it must be imported from the tree"
    return [*OPTIONS, f"--rootdir={tree}", "-c", str(tree / "pyproject.toml"), f"--basetemp={temporary}"]


def named(test: str) -> tuple[str, str, str]:
    """What a test is called by: itself, with any parameters, and its file."""
    return test, test.partition("[")[0], test.partition("::")[0]


@dataclass(eq=False)
class Chosen:
    """A plugin of pytest: only these tests, with all parameters or some, or all of a file, in this order; keeps the first that
    fails."""

    names: list[str]
    failed: str = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = {name: number for number, name in enumerate(self.names)}
        places = {item: [order[name] for name in named(item.nodeid) if name in order] for item in items}
        found = [(place[0], item) for item, place in places.items() if place]
        items[:] = [item for _, item in sorted(found, key=lambda pair: pair[0])]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = f"importing {report.nodeid}"


def _attempt(sender: Connection, seconds: float, tree: Path, names: list[str]) -> None:
    chosen = Chosen(names)
    files = dict.fromkeys(name.partition("::")[0] for name in names)
    code = pytest.main([*_enter(tree, seconds), "-x", *files], plugins=[chosen])
    kind = OUTCOMES.get(pytest.ExitCode(code), "broken")
    sender.send(Outcome(kind, chosen.failed or ("importing conftest.py" if kind == "killed" else "")))


def _record(sender: Connection, seconds: float, tree: Path, file: str, rooms: tuple[str, ...]) -> None:
    options = _enter(tree, seconds)
    sender.send(record(tree, file, rooms, options))
