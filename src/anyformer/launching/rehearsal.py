"""A script is rehearsed on this machine: it runs as it stands, with stand-ins for the cluster's commands and for torchrun.

Twice: once to its end, and once until it is told that its time is over. Nothing is trained, and nothing leaves this machine.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from anyformer.describe import UserError
from anyformer.launching.cluster import Cluster
from anyformer.launching.launch import Launch

LONGEST = 60.0
"""Seconds after which a rehearsal has failed."""
PREAMBLE = '#!/bin/bash\nset -u\nhere="$ANYFORMER_REHEARSAL"\n'
STAND_INS = {
    "scontrol": """
case "$1" in
show) for ((i = 0; i < SLURM_NNODES; i++)); do echo "node-$i"; done ;;
requeue) echo "$2" >"$here/requeued" ;;
esac
""",
    "scancel": """
for file in "$here"/running/*; do kill -TERM "$(cat "$file")"; done
""",
    "srun": """
while [[ "$1" == -* ]]; do shift; done
running=()
for ((i = 0; i < SLURM_NNODES; i++)); do
  SLURM_NODEID=$i HOSTNAME=node-$i "$@" &
  running+=($!)
done
code=0
for each in "${running[@]}"; do wait "$each" || code=$?; done
exit "$code"
""",
    "ssh": """
while [[ "$1" == -* ]]; do shift 2; done
HOSTNAME=$1 exec bash -c "$2"
""",
}
"""The cluster's commands, as far as scripts use them: every node is this machine."""
TORCHRUN = """
if [ -n "$ANYFORMER_REHEARSAL_WAITS" ]; then
  trap 'exit 1' TERM
  echo $$ >"$here/running/$HOSTNAME.new"
  mv "$here/running/$HOSTNAME.new" "$here/running/$HOSTNAME"
fi
printf '%s\\0' torchrun "$@" >"$here/$HOSTNAME.new"
mv "$here/$HOSTNAME.new" "$here/started/$HOSTNAME"
while [ -n "$ANYFORMER_REHEARSAL_WAITS" ]; do sleep 0.02; done
"""
"""Writes down what a node was told to start; in the second rehearsal it waits until it is told to end."""


class RehearsalError(UserError):
    """A script did not do what it is there for."""


@dataclass(frozen=True)
class Started:
    """What a node of a script starts."""

    node: str
    words: tuple[str, ...]

    @property
    def command(self) -> str:
        """The words as they are typed."""
        return shlex.join(self.words)


def write_stand_ins(folder: Path, names: Mapping[str, str]) -> None:
    """Programs of these names, each of a text of bash."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in names.items():
        (folder / name).write_text(PREAMBLE + text, encoding="utf-8")
        (folder / name).chmod(0o755)


def rehearsed(cluster: Cluster, launch: Launch) -> list[Started]:
    """What a node starts by the script, in the nodes' order. Raises `RehearsalError` where that is not the run.

    `setup` and `environment` are left out, since they may call for what only the cluster has.
    """
    if shutil.which("bash") is None:
        raise RehearsalError("scripts are for bash, and there is none here to try them with: install it")
    with _rehearsal(cluster, launch, waits=False) as (here, running):
        codes = [_ended(process, here) for process in running]
        if any(codes):
            raise RehearsalError(f"the script ended with {codes}, though every node succeeded")
        found = [Started(file.name, _words(file)) for file in sorted((here / "started").iterdir(), key=_order)]
        if (here / "requeued").exists():
            raise RehearsalError("the script queued a run again that was finished")
    _check_started(found, cluster, launch)
    with _rehearsal(cluster, launch, waits=True) as (here, running):
        _wait_until(lambda: len(list((here / "started").iterdir())) == launch.nodes, "start every node")
        for process in running:
            process.send_signal(signal.Signals[cluster.signal])
        codes = [_ended(process, here) for process in running]
        if not all(codes):
            raise RehearsalError(f"the script ended with 0 after {cluster.signal}, though its nodes were stopped")
        if "scontrol" in cluster.stand_ins and not (here / "requeued").exists():
            raise RehearsalError(f"the script did not queue again after {cluster.signal}")
    return found


@contextmanager
def _rehearsal(cluster: Cluster, launch: Launch, *, waits: bool) -> Iterator[tuple[Path, list[subprocess.Popen[bytes]]]]:
    """A folder in which nodes leave what they were told, and the processes of the script."""
    with tempfile.TemporaryDirectory(prefix="anyformer-rehearsal-") as name:
        here, bare = Path(name), cluster.but(setup=(), environment=())
        for folder in ("started", "running"):
            (here / folder).mkdir()
        write_stand_ins(here / "bin", {each: STAND_INS[each] for each in bare.stand_ins} | {"torchrun": TORCHRUN})
        file = here / f"script{bare.suffix}"
        file.write_text(bare.script(launch), encoding="utf-8")
        said = here / "said"
        variables = {
            **os.environ, "PATH": f"{here / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
            "ANYFORMER_REHEARSAL": str(here), "ANYFORMER_REHEARSAL_WAITS": "yes" * waits,
        }  # fmt: skip
        with said.open("wb") as output:
            running = [
                subprocess.Popen(
                    program.words, env={**variables, **program.variables},
                    stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                )
                for program in bare.programs(launch, str(file))
            ]  # fmt: skip
            try:
                yield here, running
            finally:
                for process in running:
                    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a script with all that it started, if anything of it is left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ended(process: subprocess.Popen[bytes], here: Path) -> int:
    try:
        return process.wait(LONGEST)
    except subprocess.TimeoutExpired:
        said = (here / "said").read_text(encoding="utf-8", errors="replace").strip()
        raise RehearsalError(f"the script did not end within {LONGEST:g} s{': ' * bool(said)}{said}") from None


def _wait_until(done: Callable[[], bool], what: str) -> None:
    last = time.monotonic() + LONGEST
    while not done():
        if time.monotonic() > last:
            raise RehearsalError(f"within {LONGEST:g} s the script did not {what}")
        time.sleep(0.01)


def _words(file: Path) -> tuple[str, ...]:
    return tuple(file.read_text(encoding="utf-8").split("\0")[:-1])


def _order(file: Path) -> tuple[str, int]:
    """node-2 before node-10."""
    head, _, number = file.name.rpartition("-")
    return (head, int(number)) if number.isdigit() else (file.name, 0)


def _check_started(found: list[Started], cluster: Cluster, launch: Launch) -> None:
    """Raise `RehearsalError` unless torchrun, by its own reading, was told the same on every node, and that is the run."""
    from torch.distributed.run import get_args_parser

    if len(found) != launch.nodes:
        raise RehearsalError(f"the script starts torchrun on {len(found)} nodes ({[each.node for each in found]}), not on "
                             f"{launch.nodes}")  # fmt: skip
    told = {each.words for each in found}
    if len(told) > 1:
        raise RehearsalError(f"nodes are told different things: {' and '.join(map(shlex.join, sorted(told)))}")
    asked = get_args_parser().parse_args(found[0].words[1:])
    wanted = (cluster.nnodes(launch), str(launch.gpus), "anyformer")
    program = ["train", launch.run, "--resume", launch.out]
    if (asked.nnodes, asked.nproc_per_node, asked.training_script) != wanted or asked.training_script_args != program:
        raise RehearsalError(f"torchrun reads another run out of its words: {found[0].command}")
