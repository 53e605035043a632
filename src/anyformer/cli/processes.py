"""Commands that several processes run together: what they divide, and that the first one alone speaks."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.describe import UserError
from anyformer.mesh import rank, started

if TYPE_CHECKING:
    import torch

    from anyformer.inference import Processes

_option = partial(typer.Option, rich_help_panel="Several processes (under torchrun)")
GRACE = 10
"""Seconds in which the first process fails as another one did, and the launcher ends them all."""
DAY = 86_400


@dataclass(frozen=True)
class ProcessOptions:
    """What the processes divide that torchrun started."""

    expert: Annotated[
        int,
        _option(
            help="Divide whole experts among so many of the processes, and their features among the others. By default all "
            "divide features. Everything else is divided by heads, features and rows of the vocabulary among all processes "
            "that torchrun --nproc-per-node started.",
            min=1,
            metavar="PROCESSES",
        ),
    ] = 1

    @contextmanager
    def together(self, device: torch.device | str, *, waits: bool = False) -> Iterator[Processes]:
        """The processes, connected within. `waits`: for a user, who may be away."""
        from anyformer.inference import processes

        with processes(device, self.expert, DAY if waits else None) as them:
            yield them


def refuse_clock(max_time: float | None) -> None:
    """Refuse an end that several processes would find at different tokens."""
    if max_time is not None and started() > 1:
        raise UserError(
            "--max-time ends texts by a clock, and every process has its own: set --max-tokens, or start one process"
        )


@contextmanager
def first_speaks() -> Iterator[None]:
    """Inside, what other processes than the first one print goes nowhere."""
    if rank() == 0:
        yield
        return
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield


def tells(error: UserError) -> bool:
    """Whether this process tells the user of an error. The first one does at once, and its launcher then ends the others while
    they wait here; one that is still there had the error alone, and tells it unless it knows that another does."""
    if rank() == (error.teller or 0):
        return True
    time.sleep(GRACE if error.teller is None else GRACE / 2)
    return error.teller is None
