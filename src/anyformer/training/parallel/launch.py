"""Joining the processes that a launcher started."""

from __future__ import annotations

import atexit
import faulthandler
import gc
import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import uuid4

import torch
import torch.distributed as dist

from anyformer.describe import UserError
from anyformer.mesh import Mesh, started
from anyformer.training.parallel.ranks import ALONE, Ranks
from anyformer.training.parent import end_with_parent

TORCHRUN = "TORCHELASTIC_RUN_ID"
"""The variable that `torchrun` sets: its processes belong to it; another launcher may end before them."""


class LostProcessError(UserError):
    """A process of the run is gone."""

    exit_code = 1


def mesh_of(asked: Mesh, processes: int) -> Mesh:
    """The mesh of a run. Raises `UserError` for another number of processes than there are."""
    try:
        return asked.over(processes)
    except ValueError as error:
        needed = (asked.data or 1) * asked.divided
        shard, left = divmod(processes, needed // asked.shard)
        fits = left == 0 and shard * asked.context % asked.expert == 0
        other = f"--set plan.mesh.shard={shard}" if fits else "another plan.mesh"
        raise UserError(
            f"{error}: start as many with torchrun --nproc-per-node {needed} -m anyformer train ..., or with {other}"
        ) from None


RESUMES = "what was saved is kept: start all processes again with --resume"
"""The remedy of a run that lost a process."""


@contextmanager
def joined(asked: Mesh, device: torch.device, remedy: str = RESUMES) -> Iterator[Ranks]:
    """The processes of a run; connected to one another within, where there are several.

    Raises `LostProcessError` where another process ended, with the `remedy`.
    """
    mesh = mesh_of(asked, started())
    if started() == 1:
        yield ALONE
        return
    from anyformer.training.parallel.exchange_clock import exchanges_timed
    from anyformer.training.parallel.together import Together

    connect(device, mesh.timeout)
    with losses_told(remedy), exchanges_timed(device) as clock:
        yield Together.of(mesh, device, clock)


@contextmanager
def losses_told(remedy: str = RESUMES) -> Iterator[None]:
    """Within, what torch raises where another process ended becomes a `LostProcessError`, which says where all others are."""
    try:
        yield
    except RuntimeError as error:
        sign = next((each for each in _causes(error) if isinstance(each, dist.DistError) or "gloo/" in str(each)), None)
        if sign is None:
            raise
        raise _lost(sign, remedy) from error


def _lost(sign: BaseException, remedy: str) -> LostProcessError:
    """The error of a run, of what torch raised: one sentence, and beneath it what else is known. The first process that answers
    tells it."""
    from anyformer.training.parallel.lookout import asked_all, machines
    from anyformer.training.parallel.whereabouts import lost, told

    found = asked_all(sign)
    named = lost(found, machines())
    more = [f"torch says: {str(sign).splitlines()[0]}", *(() if named else told(found))]
    said = named or "another process of this run ended or does not answer"
    error = LostProcessError("\n  ".join([f"{said}; {remedy}", *more]))
    error.teller = min((rank for rank, where in found.items() if where is not None), default=None)
    return error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those that it was raised from: a schedule wraps what its stages raise. gloo has no error of its own, and
    tells the place in its code."""
    while error is not None:
        yield error
        error = error.__cause__


def connect(device: torch.device, timeout: float) -> None:
    """Connect this process to the others, once, until it ends: a launcher's processes find one another only once.

    `timeout`: seconds that it waits for them whenever they work together.
    """
    if dist.is_initialized():
        return
    from anyformer.training.parallel.lookout import look_out

    if "MASTER_ADDR" not in os.environ:
        raise UserError(
            f"WORLD_SIZE = {started()}, and no launcher says where the other processes are (MASTER_ADDR): start them with "
            "torchrun, or unset WORLD_SIZE"
        )
    if TORCHRUN in os.environ:
        end_with_parent()
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    # Weights that two dimensions of a mesh divide are gathered in two steps, as they must be.
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)
    # nccl ends a process that waited too long by a signal: its threads are then written down.
    faulthandler.enable(sys.__stderr__ or 2)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=timeout))
    atexit.register(disconnect)
    # A name of their meeting: a launcher counts restarts per machine, not for all.
    met = [("", "")] * dist.get_world_size()
    dist.all_gather_object(met, (uuid4().hex, socket.gethostname()))
    look_out(met[0][0], [machine for _, machine in met], belongs=TORCHRUN in os.environ)


def disconnect() -> None:
    """Part from the other processes."""
    # Divided models are in cycles of references, and a connection that outlives its group ends the process with an error.
    gc.collect()
    dist.destroy_process_group()
