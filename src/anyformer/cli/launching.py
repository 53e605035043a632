"""`anyformer launch`."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from os.path import isfile  # which no name is too long for
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyformer.cli.aligned import wrapped
from anyformer.cli.arguments import Json, assigned
from anyformer.cli.as_json import print_json
from anyformer.cli.options import grouped

if TYPE_CHECKING:
    from anyformer.launching import Cluster, Launch, Started

EXAMPLES = """
anyformer launch run.toml --nodes 8 --gpus 8 --on slurm --set partition=gpu --set minutes=1440
anyformer launch run.toml --nodes 2 --gpus 8 --on k8s --set image=my/image:1 --set claim=my-volume
anyformer launch run.toml --nodes 2 --gpus 4 --on ssh --set 'hosts=["node-1","node-2"]'
anyformer launch run.toml --nodes 8 --gpus 8 --on my-cluster.toml --set fewest=4
"""


@dataclass(frozen=True)
class LaunchOptions:
    """How many there are, and where they start."""

    nodes: Annotated[int, typer.Option(help="Start on this many machines.", min=1, metavar="COUNT")] = 1
    gpus: Annotated[
        int, typer.Option(help="Start this many processes per machine, one per accelerator.", min=1, metavar="COUNT")
    ] = 8
    on: Annotated[
        str,
        typer.Option(
            help="What starts them: a batch script for Slurm, a JobSet for Kubernetes, or a shell script that uses ssh. Or "
            "a TOML file that says so (its kind) and more: partition, account, minutes, image, environment, setup and "
            "others (docs/reference/clusters.md).",
            metavar="slurm|k8s|ssh|FILE.toml",
        ),
    ] = "slurm"
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Set a value of the cluster, as in --set partition=gpu --set 'environment=[\"NCCL_DEBUG=INFO\"]'. Repeat it "
            "for more.",
            metavar="NAME=VALUE",
        ),
    ] = None


@grouped
def run(
    file: Annotated[Path, typer.Argument(help="The TOML file of a run.", metavar="RUN.toml")],
    *,
    asked: LaunchOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The run's directory, which all machines must see: the first start begins it, later ones go on. By default "
            "runs/ and the name of the file.",
            metavar="DIRECTORY",
        ),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            help="Write the script into this new file. By default the name of the run's file, with .sbatch, .yaml or .sh.",
            metavar="FILE",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write the script that starts a run in several processes on a cluster, and go on after failures and time limits.

    The mesh of the run is checked against the processes first. Then the script is tried on this machine, with stand-ins for
    torchrun and the cluster's commands, and the command of every machine is printed. Nothing is submitted.

    On every machine torchrun starts the processes, also again after a failure. Before the time is over they save
    and end; a later start goes on, also with another number of processes.
    """
    from anyformer.describe import UserError
    from anyformer.files import check_file, disk_errors
    from anyformer.launching import Launch, check_layout, cluster_of, notes, rehearsed
    from anyformer.resolving import is_run
    from anyformer.training import load_run

    if not isfile(file) or not is_run(file):
        raise UserError(
            f"{file}: is not the file of a run; write one with anyformer plan --write (keys: docs/reference/run.md)"
        )
    cluster = cluster_of(asked.on, assigned(asked.changes))
    launch = Launch(str(file), str(out or Path("runs") / file.stem), asked.nodes, asked.gpus)
    target = write or Path(file.stem + cluster.suffix)
    if target.exists():
        raise UserError(f"{target} is there already: choose another file with --write, or remove it")
    check_file(target)
    described = load_run(file)
    check_layout(described, cluster, launch)
    started, said = rehearsed(cluster, launch), notes(described, launch)
    with disk_errors(target):
        target.write_text(cluster.script(launch), encoding="utf-8")
    if json:
        print_json(_data(cluster, launch, target, started, said))
    else:
        typer.echo("\n".join(_page(cluster, launch, target, started, said, shutil.get_terminal_size().columns)))


def _data(cluster: Cluster, launch: Launch, file: Path, started: list[Started], notes: list[str]) -> dict[str, Any]:
    return {
        "script": file, "submit": cluster.submit(str(file)), "processes": launch.nodes * launch.gpus,
        "out": launch.out, "cluster": cluster.plain(), "notes": notes,
        "nodes": {each.node: list(each.words) for each in started},
    }  # fmt: skip


def _page(cluster: Cluster, launch: Launch, file: Path, started: list[Started], notes: list[str], width: int) -> list[str]:
    """What was checked, what the machines start, and how to submit it."""
    calls = ", ".join((*cluster.stand_ins, "torchrun"))
    first, *others = started
    also = f" (and {others[0].node}{f' to {others[-1].node}' if others[1:] else ''} the same)" if others else ""
    return [
        f"{file}: {launch.nodes} x {launch.gpus} processes, as plan.mesh of {launch.run} asks",
        *wrapped(f"tried on this machine with stand-ins for {calls}: {first.node}{also} starts", width, ""),
        f"  {shlex.join(first.words)}",
        *(line for text in (*notes, cluster.ends()) for line in wrapped(text, width, "")),
        f"start it with\n  {cluster.submit(str(file))}",
    ]
