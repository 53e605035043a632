"""Python programs in processes forked from one that has loaded torch and the package: loading takes each process seconds.

Processes of a group find one another as those of `torchrun` do, by the same variables, and are ended as there: when one fails,
the others are told to end. What is asked of a launcher itself starts torchrun.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any

from stand_ins import measured_once

ROOT = Path(__file__).parents[1]
LONGEST = 240
"""Seconds after which processes that wait for ever are a failure."""
LOADED = (
    "anyformer.cli", "anyformer.huggingface", "anyformer.inference.division", "anyformer.loading", "anyformer.testing",
    "anyformer.training.parallel.context", "anyformer.training.parallel.lookout", "anyformer.training.parallel.pipeline",
    "anyformer.training.parallel.together", "anyformer.training.parallel.vocabulary", "anyformer.training.trainer",
    "benchmarks.dispatching", "benchmarks.equality", "benchmarks.exchanges", "torch._dynamo",
    "torch.distributed.checkpoint.hf_storage", "torch.distributed.fsdp", "torch.distributed.pipelining",
)  # fmt: skip
"""Modules that most programs load, and with them the others."""


@dataclass(frozen=True)
class Forker:
    """The process that forks; programs are asked for one at a time."""

    process: subprocess.Popen[str]

    def run(
        self, folder: Path, processes: int, words: tuple[str, ...], environment: dict[str, str], out: Path
    ) -> subprocess.CompletedProcess[str]:
        """What `python WORDS` says in so many processes in a folder: a file of a program, or `-m` and a module.

        `out`: the beginning of the names of the files into which they speak.
        """
        asked = {"folder": str(folder), "count": processes, "words": words, "environment": environment, "out": str(out)}
        ask, answer = self.process.stdin, self.process.stdout
        assert ask is not None
        assert answer is not None
        print(json.dumps(asked), file=ask, flush=True)
        status = json.loads(answer.readline())
        said = [Path(f"{out}.{name}").read_text(encoding="utf-8") for name in ("out", "err")]
        return subprocess.CompletedProcess(words, status, *said)


@contextmanager
def forker() -> Iterator[Forker]:
    """A process that forks others, until the end of the block."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, __file__], env=environment, cwd=ROOT, text=True, **pipes) as process:
        yield Forker(process)
        assert process.stdin is not None
        process.stdin.close()


def serve(asks: IO[str], answers: IO[str]) -> None:
    """Fork for each line that is read, and write the status of each group: the first that is not 0."""
    from anyformer.plan import Plan
    from anyformer.training.precision import default_device, measured_host

    for name in LOADED:
        importlib.import_module(name)
    with measured_once():
        measured_host(default_device(), Plan(precision="fp32"))
        gc.collect()
        gc.freeze()  # no process looks for garbage, and writes, in what all of them share
        for line in asks:
            print(json.dumps(together(**json.loads(line))), file=answers, flush=True)


def together(folder: str, count: int, words: list[str], environment: dict[str, str], out: str) -> int:
    """The status of a group of processes that run a program."""
    for name in ("out", "err"):
        Path(f"{out}.{name}").touch()
    made = multiprocessing.get_context("fork")
    port = free_port()
    group = [made.Process(target=act, args=(rank, count, port, folder, words, environment, out)) for rank in range(count)]
    for each in group:
        each.start()
    return ended(group)


def forked(folder: Path, *words: str, processes: int = 1) -> subprocess.CompletedProcess[str]:
    """What `python WORDS` says in a folder, in so many processes forked from this one."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    status = together(str(folder), processes, list(words), environment, str(folder / "said"))
    said = [(folder / f"said.{name}").read_text(encoding="utf-8") for name in ("out", "err")]
    return subprocess.CompletedProcess(words, status, *said)


def ended(group: list[BaseProcess]) -> int:
    """Wait for all; when one fails, or takes too long, the others are told to end."""
    status, last, left = 0, time.monotonic() + LONGEST, list(group)
    while left:
        wait([each.sentinel for each in left], timeout=max(0.0, last - time.monotonic()))
        # Asked once: a process may end between two questions.
        codes = [each.exitcode for each in left]
        failed = next((code for code in codes if code), 124 if time.monotonic() >= last else 0)
        left = [each for each, code in zip(left, codes, strict=True) if code is None]
        if failed and not status:
            status, last = failed, time.monotonic() + 30  # as long as torchrun waits for them
            for each in left:
                each.terminate()
        elif failed == 124:
            for each in left:
                each.kill()
    return status


def act(rank: int, count: int, port: int, folder: str, words: list[str], environment: dict[str, str], out: str) -> None:
    """Run a program as one process of a group."""
    os.environ.clear()
    os.environ.update(environment)
    if count > 1:
        os.environ |= {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        }  # fmt: skip
    os.chdir(folder)
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(f"{out}.{name}", os.O_WRONLY | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    sys.stdout, sys.stderr = (os.fdopen(os.dup(number), "w", encoding="utf-8", buffering=1) for number in (1, 2))
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(words[0]).parent))
        runpy.run_path(words[0], run_name="__main__")


def free_port() -> int:
    """A port that nobody listens at."""
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a module prints while it is loaded is no answer
    serve(sys.stdin, answers)
