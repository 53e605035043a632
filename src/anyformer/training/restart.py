"""The line of a launcher that starts a run again and again: the first time the run begins, then it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from anyformer.describe import leads_to
from anyformer.mesh import started
from anyformer.stores import exists, is_url, joined
from anyformer.training import journal
from anyformer.training.loop import resume, train
from anyformer.training.parallel.launch import connect, losses_told, mesh_of
from anyformer.training.precision import default_device
from anyformer.training.run import Run
from anyformer.training.store_resume import home_of, store_of
from anyformer.training.trained import Trained

MESH = "plan.mesh"


def begin_or_resume(
    run: Run,
    directory: Path | str,
    changes: Mapping[str, Any] | None = None,
    *,
    console: Console | None = None,
    began: float | None = None,
) -> Trained:
    """Continue the run of a directory, as `resume` does, if it has begun, and else begin `run` there.

    `directory`: or the URL of its copy in a store, which `checkpoints.store` then is; it begins in `runs`, under its name.
    The processes that are there now divide a run that goes on as `run.plan.mesh` says; of its other values only the `changes`
    by path count then.
    """
    begun = _begun(run, str(directory))
    if begun is None:
        if is_url(str(directory)):
            run = run.but(checkpoints=run.checkpoints.but(store=store_of(str(directory))))
            directory = home_of(str(directory))
        return train(run, directory, console=console, began=began)
    others = {path: value for path, value in (changes or {}).items() if not leads_to(path, MESH)}
    return resume(begun, {**others, MESH: run.plan.mesh}, console=console, began=began)


def _begun(run: Run, place: str) -> str | None:
    """Where the run of a directory or a store goes on, to the eyes of the first process: others may see a new file later.

    That of a store goes on in its directory while its first checkpoint is not copied. None where no run has begun.
    """
    if is_url(place):
        begun = place if exists(joined(place, journal.RUN)) else _uncopied(place)
    else:
        begun = place if (Path(place) / journal.RUN).is_file() else None
    if started() == 1:
        return begun
    import torch.distributed as dist

    mesh_of(run.plan.mesh, started())
    with losses_told():
        connect(default_device(), run.plan.mesh.timeout)
        found = [begun]
        dist.broadcast_object_list(found, src=0)
    return found[0]


def _uncopied(url: str) -> str | None:
    """The directory of a run that was begun for a URL but that its store has not; None where there is none."""
    home = home_of(url)
    if not (home / journal.RUN).is_file():
        return None
    store = journal.read_run(home).checkpoints.store
    return str(home) if store is not None and joined(store, home.name) == joined(url) else None
