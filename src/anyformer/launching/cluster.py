"""`Cluster`: what the places where runs are started have in common."""

from __future__ import annotations

import re
import shlex
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field, field_validator

from anyformer.describe import Count, Value
from anyformer.launching.launch import Launch

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True)
class Program:
    """A command as a cluster starts it: its words, and the variables that the cluster sets for it."""

    words: tuple[str, ...]
    variables: Mapping[str, str]


class Cluster(Value):
    """Where a run starts, and how. A file of it is TOML, as in `kind = "slurm"`, `partition = "gpu"`."""

    suffix: ClassVar[str]
    """The end of a script's file name."""
    signal: ClassVar[str] = "SIGTERM"
    """What the cluster sends a script, or a pod, when its time is over."""
    stand_ins: ClassVar[tuple[str, ...]] = ()
    """The cluster's commands that a script calls."""

    setup: tuple[str, ...] = ()
    """Lines of shell before the run, such as `module load cuda` or `source venv/bin/activate`."""
    environment: tuple[str, ...] = ()
    """Variables of every process, as in `NCCL_SOCKET_IFNAME=ib0`."""
    restarts: Annotated[int, Field(ge=0)] = 3
    """How often the processes begin again, from the last checkpoint, after one of them failed (`torchrun --max-restarts`)."""
    fewest: Count | None = None
    """Nodes with which the run goes on where others are lost (`torchrun --nnodes FEWEST:NODES`). Absent: all."""
    port: Annotated[int, Field(ge=1024, le=65535)] = 29500
    """The port of the first node at which the others meet it."""
    ending: Count = 10
    """Minutes that the processes have to save what they trained when their time is over."""

    @field_validator("environment")
    @classmethod
    def _assigns(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for each in given:
            if not _VARIABLE.match(each):
                raise ValueError(f"should be NAME=VALUE, got {each!r}")
        return given

    @field_validator("setup", "environment")
    @classmethod
    def _one_line(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for each in given:
            if "\n" in each:
                raise ValueError(f"is one line per item, got {each!r}")
        return given

    @property
    def variables(self) -> dict[str, str]:
        """Every process's variables: the seconds that torchrun gives its processes to end, then those of `environment`."""
        found = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(60 * self.ending)}
        if self.fewest is not None:
            # Else a node that comes late waits for an address that torchrun (of torch 2.13) tells once, and all nodes end.
            found["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        return found | dict(each.split("=", 1) for each in self.environment)

    @property
    def exports(self) -> list[str]:
        """Lines of shell that set the variables, then those of `setup`."""
        return [f"export {name}={shlex.quote(value)}" for name, value in self.variables.items()] + list(self.setup)

    def counts(self, launch: Launch) -> range:
        """The numbers of nodes that a run can have here."""
        return range(self.fewest or launch.nodes, launch.nodes + 1)

    def torchrun(self, launch: Launch, id: str, endpoint: str) -> list[str]:
        """The words that start the processes of a node, in the shell's spelling. A node that starts again goes on.

        `id`, `endpoint`: of the rendezvous, in the shell's spelling.
        """
        return [
            "torchrun", "--nnodes", self.nnodes(launch), "--nproc-per-node", str(launch.gpus),
            "--max-restarts", str(self.restarts), "--rdzv-backend", "c10d", "--rdzv-id", id, "--rdzv-endpoint", endpoint,
            "-m", "anyformer", "train", shlex.quote(launch.run), "--resume", shlex.quote(launch.out),
        ]  # fmt: skip

    def nnodes(self, launch: Launch) -> str:
        """The numbers of nodes as torchrun takes them."""
        counts = self.counts(launch)
        return f"{counts[0]}:{counts[-1]}" if len(counts) > 1 else str(launch.nodes)

    @abstractmethod
    def script(self, launch: Launch) -> str:
        """The text that starts a run here."""

    @abstractmethod
    def submit(self, file: str) -> str:
        """The command that hands the script over."""

    @abstractmethod
    def programs(self, launch: Launch, file: str) -> list[Program]:
        """What the cluster starts for a script in this file."""

    @abstractmethod
    def check(self, launch: Launch) -> None:
        """Raise `UserError` for what cannot start here."""

    @abstractmethod
    def ends(self) -> str:
        """What happens when the time is over, in words."""
