"""What every test finds: one thread per process, and the command line as a function.

The workers share the cores, and threads that fight over them make every test slower.
"""

import contextlib
import gc
import io
import itertools
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job of a shell, where a test that sends one would wait
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Compiled code lies in a cache that does not ask for which processor it was made, and another one's crashes. It outlives a run.
os.environ.setdefault(
    "TORCHINDUCTOR_CACHE_DIR",
    f"{tempfile.gettempdir()}/torchinductor-{os.getuid()}-{os.environ.get('ATEN_CPU_CAPABILITY', 'whole')}",
)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # every process that a test starts would compile the whole package again
os.environ.pop("COLUMNS", None)  # pytest-xdist gives its workers one, and a pipe has no width

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

import effort
from effort import PROFILES
from stand_ins import CacheIn, measured_once

# Time is no property of a value: on a busy machine a deadline fails what is right, and so does a slow draw.
for profile, count in PROFILES.items():
    settings.register_profile(profile, deadline=None, max_examples=count, suppress_health_check=[HealthCheck.too_slow])


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected: what imports and collection make stays, and looking through it takes seconds
    effort.slow_too = "not slow" not in config.option.markexpr
    settings.load_profile("all" if effort.slow_too else "half")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Properties are long runs too, with all of their examples."""
    if settings.default.max_examples == PROFILES["all"]:
        for item in items:
            if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
                item.add_marker(pytest.mark.slow)


FREEZES = 250
"""Tests after which what has come to stay, such as imported modules, is no longer searched for garbage."""


def pytest_collection_finish() -> None:
    """The tests themselves are half a million objects, which Python would look through hundreds of times: a fifth of some
    files' time."""
    gc.freeze()  # without a search: it would take a second, and find little
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


def pytest_runtest_logfinish() -> None:
    if next(_finished) % FREEZES == 0:
        _freeze()


_finished = itertools.count(1)


def _freeze() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is read from or left in the cache of whoever runs the tests; all workers of a run share one."""
    with mock.patch.dict(os.environ, {"ANYFORMER_CACHE": str(_of_the_run(tmp_path_factory, "cache"))}):
        yield


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """C++ sources are compiled once a run, which takes five seconds for each, whatever cache a test has."""
    from anyformer import native

    with mock.patch.object(native, "KEPT", CacheIn("native", root=_of_the_run(tmp_path_factory, "compiled"))):
        yield


def _of_the_run(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """A directory that all workers of a run share."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / name


@pytest.fixture(scope="session", autouse=True)
def _own_scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Temporary directories lie in pytest's own, of which it keeps three: a run that is killed deletes none of its own."""
    with mock.patch.object(tempfile, "tempdir", str(tmp_path_factory.mktemp("scratch"))):
        yield


@pytest.fixture(scope="session", autouse=True)
def _asked_anew() -> Iterator[None]:
    """Commands keep no answer: what a test puts in the place of code changes no file."""
    from anyformer.cli import answering

    with mock.patch.object(answering, "key_of", return_value=None):
        yield


@pytest.fixture(scope="session", autouse=True)
def _measured_once() -> Iterator[None]:
    """For all tests but those that use `drawn_curves`, `counted_flops` and `counted_memory`."""
    with measured_once():
        yield


@pytest.fixture(params=[False, True], ids=["rows", "tiles"])
def tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Kernels are chosen as on a processor without AMX, and as on one that has it."""
    monkeypatch.setattr("torch.cpu._is_amx_tile_supported", lambda: request.param)
    return bool(request.param)


@pytest.fixture
def drawn_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs draw their losses, as they do outside the tests."""
    from anyformer.training import chart, ending

    monkeypatch.setattr(ending, "draw_losses", chart.draw_losses)


@pytest.fixture
def counted_flops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs count the FLOPs of their models, as they do outside the tests."""
    from anyformer.costs.counted import total_flops
    from anyformer.training import summary

    monkeypatch.setattr(summary, "total_flops", total_flops)
    remembered = (summary.update_figures, summary.piece_flops)
    for each in remembered:
        each.cache_clear()
    yield
    for each in remembered:
        each.cache_clear()


@pytest.fixture
def counted_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs count the tensors of an update, as they do outside the tests."""
    from anyformer.costs.allocated import watching_allocations
    from anyformer.training import memory_meter

    monkeypatch.setattr(memory_meter, "watching_allocations", watching_allocations)


Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def call(tmp_path_factory: pytest.TempPathFactory) -> Call:
    """`call("show", "gpt2", cwd=..., columns=80)`: run a command in this process, its output piped, `COLUMNS` set.

    Gives what `subprocess.run` does: `returncode`, `stdout`, `stderr`. A process of its own would import torch for seconds.
    All calls share one cache, so that this machine is calibrated once; C++ sources are compiled once for all tests.
    """
    cache, compiled = tmp_path_factory.mktemp("cache"), Path(os.environ["ANYFORMER_CACHE"]) / "native"
    compiled.mkdir(parents=True, exist_ok=True)
    (cache / "native").symlink_to(compiled)

    def run(*arguments: str, cwd: Path | None = None, columns: int = 80) -> subprocess.CompletedProcess[str]:
        from anyformer.cli import main

        out, err, code = io.StringIO(), io.StringIO(), 0
        with (
            contextlib.chdir(cwd or "."),
            mock.patch.dict(os.environ, {"ANYFORMER_CACHE": str(cache), "COLUMNS": str(columns)}),
            mock.patch("sys.argv", ["anyformer", *arguments]),
            mock.patch("gc.freeze"),  # the process goes on, and what a command leaves should be collected
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as leave:
                code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    return run
