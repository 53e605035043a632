"""Scripts train: with stand-ins for the cluster's commands alone, their nodes being processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from torch.distributed.elastic.utils.distributed import get_free_port

from anyformer.launching import Cluster, Hosts, Launch, Slurm
from anyformer.launching.rehearsal import STAND_INS, write_stand_ins
from anyformer.training.journal import read_metrics

LONGEST = 240
"""Seconds after which a script that waits for ever is a failure."""
HERE = {
    **STAND_INS,
    "scontrol": STAND_INS["scontrol"].replace('"node-$i"', "localhost"),
    "srun": STAND_INS["srun"].replace("  running+=", '  echo $! >"$here/running/$i"\n  running+='),
    "torchrun": f'exec "{sys.executable}" -m torch.distributed.run "$@"\n',
}


@pytest.fixture
def start(tmp_path, monkeypatch) -> Callable[[Cluster, Launch], subprocess.Popen[bytes]]:
    """Starts the script of a launch; what it says is in the file `said`."""
    write_stand_ins(tmp_path / "bin", HERE)
    (tmp_path / "running").mkdir()
    for name, value in {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "ANYFORMER_REHEARSAL": str(tmp_path),
        "ANYFORMER_CACHE": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)

    def started(cluster: Cluster, launch: Launch) -> subprocess.Popen[bytes]:
        file = Path(f"script{cluster.suffix}")
        file.write_text(cluster.script(launch))
        (program,) = cluster.programs(launch, str(file))
        with Path("said").open("ab") as said:
            return subprocess.Popen(program.words, env={**os.environ, **program.variables}, stdout=said, stderr=said)

    return started


def steps(directory: str) -> list[int]:
    return [row["step"] for row in read_metrics(Path(directory)) if row["kind"] == "train"]


def wait_for(done: Callable[[], bool]) -> None:
    last = time.monotonic() + LONGEST
    while not done():
        assert time.monotonic() < last, Path("said").read_text()
        time.sleep(0.05)


@pytest.mark.slow  # torchrun starts twice; scripts are rehearsed with stand-ins for it in test_scripts.py
def test_a_batch_script_trains(file, launch_on, start):
    script = start(*launch_on(Slurm(port=get_free_port(), restarts=0), 2, 1))
    assert script.wait(LONGEST) == 0, Path("said").read_text()
    assert steps("runs/one") == [1, 2, 3, 4]
    assert "2 processes: data 2" in Path("said").read_text()
    assert not Path("requeued").exists()


@pytest.mark.slow  # torchrun starts three times
def test_a_batch_script_saves_before_its_time_is_over_and_goes_on_when_it_is_queued_again(file, launch_on, start):
    """Then with one node, where it had two."""
    file.write_text(file.read_text().replace("steps = 4", "steps = 400").replace("every = 2", "every = 100"))
    script = start(*launch_on(Slurm(port=get_free_port()), 2, 1))
    wait_for(lambda: Path("runs/one/metrics.jsonl").exists() and len(steps("runs/one")) > 2)
    script.send_signal(signal.SIGUSR1)
    assert script.wait(LONGEST) != 0
    assert Path("requeued").read_text() == "1\n"
    done = steps("runs/one")
    assert done == list(range(1, len(done) + 1))
    (saved,) = [each for each in Path("runs/one/checkpoints").iterdir() if each.name.startswith("step")]
    assert saved.name == f"step-{done[-1]:08}", "what was trained is saved"
    file.write_text(file.read_text().replace("steps = 400", f"steps = {done[-1]}"))
    text = Path("runs/one/run.toml")
    text.write_text(text.read_text().replace("steps = 400", f"steps = {done[-1] + 2}"))
    Path("requeued").unlink()
    again = start(*launch_on(Slurm(port=get_free_port()), 1, 1))
    assert again.wait(LONGEST) == 0, Path("said").read_text()
    assert steps("runs/one") == [*done, done[-1] + 1, done[-1] + 2]
    assert not Path("requeued").exists()


@pytest.mark.slow  # torchrun starts twice
def test_a_shell_script_ends_its_hosts_when_it_ends(file, launch_on, start):
    file.write_text(file.read_text().replace("steps = 4", "steps = 4000").replace("every = 2", "every = 100"))
    script = start(*launch_on(Hosts(hosts=("localhost", "me@localhost"), port=get_free_port()), 2, 1))
    wait_for(lambda: Path("runs/one/metrics.jsonl").exists() and len(steps("runs/one")) > 2)
    script.kill()
    script.wait()
    wait_for(lambda: "everything trained is saved" in Path("said").read_text())
    wait_for(lambda: not Path("runs/one/.lock").exists())
