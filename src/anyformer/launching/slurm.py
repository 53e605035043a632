"""`Slurm`: a batch script for sbatch."""

from __future__ import annotations

import re
import shlex
from typing import ClassVar, Literal

from pydantic import field_validator

from anyformer.describe import Count, UserError
from anyformer.launching.cluster import Cluster, Program
from anyformer.launching.launch import Launch, folded, waited

BODY = f"""\
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

# When the time is nearly over, every process of the run saves what it has and ends; then the job queues again.
ending=
end() {{
  ending=yes
  scancel --signal=TERM "$SLURM_JOB_ID"
}}
trap end USR1

SRUN &
running=$!
{waited("running", "code", "run")}
if [ -n "$ending" ] && [ "$code" -ne 0 ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""


class Slurm(Cluster):
    """A Slurm cluster: one task per node, which starts that node's processes."""

    suffix: ClassVar[str] = ".sbatch"
    signal: ClassVar[str] = "SIGUSR1"
    stand_ins: ClassVar[tuple[str, ...]] = ("scontrol", "scancel", "srun")

    kind: Literal["slurm"] = "slurm"
    partition: str | None = None
    """The partition (`--partition`)."""
    account: str | None = None
    """The account that is charged (`--account`)."""
    minutes: Count | None = None
    """The time limit (`--time`). Absent: the partition's own."""
    cpus: Count | None = None
    """Processor cores of a node (`--cpus-per-task`). Absent: whole nodes (`--exclusive`)."""
    image: str | None = None
    """A container image in which the processes run (`srun --container-image`, which Slurm has by the plug-in pyxis)."""
    mounts: tuple[str, ...] = ()
    """Directories in the container, as in `/data:/data` (`--container-mounts`)."""
    options: tuple[str, ...] = ()
    """More options of sbatch, as in `--constraint=a100` or `--qos=long`."""

    @field_validator("partition", "account", "image")
    @classmethod
    def _word(cls, given: str | None) -> str | None:
        if given is not None and not re.fullmatch(r"\S+", given):
            raise ValueError(f"should be one word, got {given!r}")
        return given

    @field_validator("options")
    @classmethod
    def _options(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for each in given:
            if not re.fullmatch(r"--?[a-zA-Z][^\n]*", each):
                raise ValueError(f"should be options of sbatch, as in --qos=long, got {each!r}")
        return given

    def script(self, launch: Launch) -> str:
        asked = "\n".join(f"#SBATCH {option}" for option in self._asked(launch))
        body = BODY.replace("SRUN", folded(self._srun(launch)))
        return "\n".join(["#!/bin/bash", asked, launch.head, *self.exports, "", body])

    def submit(self, file: str) -> str:
        return f"sbatch {shlex.quote(file)}"

    def programs(self, launch: Launch, file: str) -> list[Program]:
        nodes = {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": f"node-[0-{launch.nodes - 1}]", "SLURM_NNODES": str(launch.nodes)}
        return [Program(("bash", file), nodes)]

    def check(self, launch: Launch) -> None:
        if self.minutes is not None and self.minutes <= self.ending:
            raise UserError(
                f"minutes = {self.minutes} end before the {self.ending} minutes that are kept for saving (ending): set minutes "
                "higher, or ending lower"
            )
        if self.mounts and self.image is None:
            raise UserError(f"mounts = {list(self.mounts)} are of a container: set image, or leave mounts out")

    def ends(self) -> str:
        return (
            f"{self.ending} minutes before the time limit sbatch sends the script SIGUSR1: the processes save and end, and the "
            "job queues again"
        )

    def _asked(self, launch: Launch) -> list[str]:
        """The options of sbatch."""
        found = {
            "job-name": launch.name, "nodes": launch.nodes, "ntasks-per-node": 1, "gpus-per-node": launch.gpus,
            "cpus-per-task": self.cpus, "partition": self.partition, "account": self.account,
            "time": None if self.minutes is None else f"{self.minutes // 60}:{self.minutes % 60:02}:00",
            "signal": f"B:USR1@{60 * self.ending}", "open-mode": "append", "output": "%x-%j.log",
        }  # fmt: skip
        alone = ["--requeue"] + ["--exclusive"] * (self.cpus is None) + ["--no-kill"] * (len(self.counts(launch)) > 1)
        return [f"--{name}={value}" for name, value in found.items() if value is not None] + alone + list(self.options)

    def _srun(self, launch: Launch) -> list[str]:
        """The line that starts a task on each node; one that fails must not end others that still save."""
        contained = [] if self.image is None else [f"--container-image={shlex.quote(self.image)}"]
        if self.mounts:
            contained.append(f"--container-mounts={shlex.quote(','.join(self.mounts))}")
        cores = ["--cpu-bind=none"] if self.cpus is None else [f"--cpus-per-task={self.cpus}"]
        own = ["srun", "--ntasks-per-node=1", "--kill-on-bad-exit=0", *cores, *["--no-kill"] * (len(self.counts(launch)) > 1)]
        torchrun = self.torchrun(launch, '"$SLURM_JOB_ID"', f'"$head_node:{self.port}"')
        return [*own, *contained, "\\\n ", *torchrun]
