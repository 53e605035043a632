"""What becomes of a run whose launcher is killed, and of one that goes on with fewer nodes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anyformer.training.journal import read_metrics

pytestmark = [
    pytest.mark.slow,  # torchrun starts, and ends, in tens of seconds
    pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the processes of another"),
]
LONGEST = 240
"""Seconds after which a process that waits for ever is a failure."""
SOON = 30
"""Seconds in which orphans must be gone: 5, and what a busy machine takes beside them."""


def descendants(parent: int) -> set[int]:
    """The processes that a process started, and that these started."""
    children: dict[int, set[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), set()).add(int(path.parent.name))
    found, new = set[int](), {parent}
    while new:
        new = {child for one in new for child in children.get(one, ())} - found
        found |= new
    return found


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(done: Callable[[], bool], seconds: float = LONGEST) -> None:
    last = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < last
        time.sleep(0.05)


def trained(directory: Path) -> list[int]:
    path = directory / "metrics.jsonl"
    return [row["step"] for row in read_metrics(directory) if row["kind"] == "train"] if path.exists() else []


@pytest.fixture
def launch(tmp_path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts torchrun with these words, in a group of processes that ends with the test."""
    running = []

    def launched(*words: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "torch.distributed.run", *map(str, words)]
        with (tmp_path / "said").open("ab") as said:
            one = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=said, stderr=said)
        running.append(one)
        return one

    yield launched
    for one in running:
        for process in (*descendants(one.pid), one.pid):
            if alive(process):
                os.kill(process, signal.SIGKILL)
        one.wait()


@pytest.mark.parametrize("trouble", ["", "hangs"])
def test_a_killed_launcher_leaves_no_process(trouble, run_of, launch, tmp_path):
    """Processes that train save and end; one that hangs in a library, and one that waits for it, are ended."""
    file = run_of("llama-3-8b")
    words = ["-m", "anyformer", "train", file, "--out", "run", "--set", "steps=4000"]
    hanging = [Path(__file__).with_name("troubled.py"), file, "run", "locks"]
    launcher = launch("--standalone", "--nproc-per-node", 2, *(hanging if trouble else words))
    wait_for(lambda: len(trained(tmp_path / "run")) >= 2)
    if trouble:
        wait_for(lambda: "hangs" in (tmp_path / "said").read_text())
    own = descendants(launcher.pid)
    assert len(own) >= 2
    launcher.kill()
    launcher.wait()
    try:
        wait_for(lambda: not any(map(alive, own)), SOON)
    finally:
        for process in filter(alive, own):
            os.kill(process, signal.SIGKILL)
    if not trouble:
        done = trained(tmp_path / "run")
        assert (tmp_path / "run" / "checkpoints" / f"step-{done[-1]:08}").exists(), "what was trained is saved"


def test_a_run_goes_on_with_the_nodes_that_come_and_those_that_are_left(run_of, launch, tmp_path, monkeypatch):
    """Two launchers of one process each are two nodes; one of them comes late, and is lost with its process."""
    with socket.socket() as one:
        one.bind(("", 0))
        port = one.getsockname()[1]
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")  # as scripts do for nodes that come late
    words = [
        "--nnodes", "1:2", "--nproc-per-node", 1, "--max-restarts", 3, "--rdzv-backend", "c10d", "--rdzv-id", "x",
        "--rdzv-endpoint", f"localhost:{port}", "--rdzv-conf", "last_call_timeout=5",
        "-m", "anyformer", "train", run_of("llama-3-8b"), "--resume", "run", "--set", "steps=100000",
    ]  # fmt: skip
    first = launch(*words)
    wait_for(lambda: len(trained(tmp_path / "run")) >= 2)
    second = launch(*words)
    said = tmp_path / "said"
    wait_for(lambda: "2 processes: data 2" in said.read_text())
    before = len(trained(tmp_path / "run"))
    wait_for(lambda: len(trained(tmp_path / "run")) >= before + 5)
    told = said.read_text().count("continuing run after step")
    for process in (*descendants(second.pid), second.pid):
        os.kill(process, signal.SIGKILL)
    wait_for(lambda: said.read_text().count("continuing run after step") > told)
    left = len(trained(tmp_path / "run"))
    wait_for(lambda: len(trained(tmp_path / "run")) > left)
    first.terminate()
    first.wait(LONGEST)
    steps = trained(tmp_path / "run")
    assert steps == list(range(1, len(steps) + 1))
