"""The line of a launcher that starts a run again and again: the first time the run begins, then it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from anyformer.describe import leads_to
from anyformer.mesh import started
from anyformer.training import journal
from anyformer.training.loop import resume, train
from anyformer.training.parallel.launch import connect, losses_told, mesh_of
from anyformer.training.precision import default_device
from anyformer.training.run import Run
from anyformer.training.trained import Trained

MESH = "plan.mesh"


def begin_or_resume(
    run: Run,
    directory: Path,
    changes: Mapping[str, Any] | None = None,
    *,
    console: Console | None = None,
    began: float | None = None,
) -> Trained:
    """Continue the run of a directory, as `resume` does, if it has begun, and else begin `run` there.

    The processes that are there now divide a run that goes on as `run.plan.mesh` says; of its other values only the `changes`
    by path count then.
    """
    if not _begun(run, directory):
        return train(run, directory, console=console, began=began)
    others = {path: value for path, value in (changes or {}).items() if not leads_to(path, MESH)}
    return resume(directory, {**others, MESH: run.plan.mesh}, console=console, began=began)


def _begun(run: Run, directory: Path) -> bool:
    """Whether a directory holds a run, to the eyes of the first process: on a shared disk others may see a new file later."""
    begun = (directory / journal.RUN).is_file()
    if started() == 1:
        return begun
    import torch.distributed as dist

    mesh_of(run.plan.mesh, started())
    with losses_told():
        connect(default_device(), run.plan.mesh.timeout)
        found = [begun]
        dist.broadcast_object_list(found, src=0)
    return found[0]
