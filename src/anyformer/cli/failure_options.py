"""Failures in `anyformer plan`: its options, and what they ask."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from anyformer.cli.bars import bar
from anyformer.describe import UserError

if TYPE_CHECKING:
    from anyformer.model import Architecture
    from anyformer.planning.failures import Failures, TrainingJob
    from anyformer.planning.forecast import Forecast
    from anyformer.planning.planner import Candidate

USUAL = 50_000.0
"""Hours between failures of an accelerator in pods of which nothing is said: Llama 3's, rounded."""
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
_option = partial(typer.Option, rich_help_panel="Failures (with --mtbf)")


@dataclass(frozen=True)
class FailureOptions:
    """The options as they are typed; None and False where they are left out."""

    mtbf: Annotated[
        float | None,
        _option(
            help="Let accelerators fail: mean time between failures of one of them, not of a node, in hours; whatever stops "
            "the job counts, in hosts, network and software too. Llama 3 reports 50,000: of 16,384 one fails every 3 "
            "hours.",
            metavar="HOURS",
        ),
    ] = None
    detect: Annotated[
        float | None,
        _option(
            help="From a failure until it is noticed. By default 10, PyTorch's timeout of a collective over NCCL.",
            metavar="MINUTES",
        ),
    ] = None
    restart: Annotated[
        float | None,
        _option(
            help="From then until the checkpoint is read: scheduling, starting processes. By default 5.", metavar="MINUTES"
        ),
    ] = None
    storage: Annotated[
        float | None,
        _option(
            help="Bandwidth of the storage of checkpoints for the whole job, in GB/s. By default 0.1 per accelerator.",
            metavar="GB",
        ),
    ] = None
    background: Annotated[
        bool,
        _option(
            "--background",
            help="Save in the background: training waits for the copy to the host alone, at 1 GB/s per accelerator, and a "
            "save counts from the moment that the storage has it.",
        ),
    ] = False
    save: Annotated[
        float | None,
        _option(
            help="Training waits this long for a save. By default as long as the storage takes, or the copy to the host.",
            metavar="SECONDS",
        ),
    ] = None
    save_every: Annotated[
        float | None,
        _option(help="Minutes of work between saves. By default the best: Daly's, in whole steps.", metavar="MINUTES"),
    ] = None
    spares: Annotated[
        int | None,
        _option(
            help="Nodes that stand by: one replaces a failed node at once, and without one the job waits for a repair. By "
            "default there is always one, and the answer says how many are enough.",
            metavar="COUNT",
        ),
    ] = None
    repair: Annotated[
        float | None, _option(help="Mean time until a failed node is back. By default 24, an assumption.", metavar="HOURS")
    ] = None
    causes: Annotated[
        str | None,
        _option(
            help="Split failures by the causes that the authors of a run report, llama-3.1-405b: those in network and software "
            "take no node out.",
            metavar="NAME",
        ),
    ] = None

    def failures(self, usual: float | None = None) -> Failures | None:
        """What fails, None without --mtbf or a `usual` time in hours; an option that cannot be is refused, as it was typed."""
        given = {name: value for name, value in asdict(self).items() if value is not None and value is not False}
        named = {name: f"--{name.replace('_', '-')}" for name in given}
        mtbf = usual if self.mtbf is None else self.mtbf
        if mtbf is None:
            if given:
                raise UserError(f"{', '.join(named.values())} is about failures: give --mtbf HOURS too")
            return None
        for name in ("mtbf", "storage", "save_every"):
            if name in given and not (given[name] > 0 and math.isfinite(given[name])):
                remedy = "; leave it out for accelerators that never fail" if name == "mtbf" else ""
                raise UserError(f"{named[name]} should be above 0, got {given[name]:g}{remedy}")
        for name in ("detect", "restart", "save", "spares", "repair"):
            if name in given and not (given[name] >= 0 and math.isfinite(given[name])):
                raise UserError(f"{named[name]} should be 0 or more, got {given[name]:g}")
        from anyformer.planning.failures import Failures, causes_of

        times = {"detect": MINUTE, "restart": MINUTE, "repair": HOUR}
        seconds = {name: given[name] * unit for name, unit in times.items() if name in given}
        return Failures(mtbf * HOUR, spares=self.spares, causes=causes_of(self.causes) if self.causes else (), **seconds)

    def job(self, failures: Failures, architecture: Architecture, best: Candidate) -> TrainingJob:
        """The job of a layout, with saves as these options say."""
        from anyformer.planning.forecast import job_of

        storage = None if self.storage is None else self.storage * 1e9
        return job_of(architecture, best, failures, storage=storage, background=self.background, pause=self.save)

    def interval(self, job: TrainingJob, step: float) -> float:
        """Seconds of work between saves: as asked, or the best, in whole steps; at least as many as a save takes."""
        from anyformer.planning.goodput import best_interval

        if self.save_every is None:
            return best_interval(job, step)
        return step * max(1, round(self.save_every * MINUTE / step), math.ceil(job.late / step))

    def forecast(self, failures: Failures, architecture: Architecture, best: Candidate, tokens: int) -> Forecast:
        """What failures make of a run of so many tokens in a layout."""
        from anyformer.planning.forecast import checkpoint_bytes, forecast

        job = self.job(failures, architecture, best)
        work = tokens / best.tokens_per_second
        every = None if self.save_every is None else self.save_every * MINUTE
        checkpoint = checkpoint_bytes(architecture, best)
        with bar("simulating", 100) as shown:
            return forecast(
                job, checkpoint, best.time.total, work, every=every, progress=lambda done, total: shown(100 * done // total)
            )
